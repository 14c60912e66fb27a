"""The whole story in words, for each of the situations an investigator has to tell apart (R14).

A compensation that failed cannot be produced yet; its words are in ``tests/core/test_narrate.py``.
"""

import json
import re
from pathlib import Path

import pytest
from commanding import call

OPENED = """\
run RUN
  TIME  the run of type "sale" was opened for event "order:{order}" by "agent:till"; reason given: "asked"
  TIME  charge on "order:{order}" was proposed under key KEY
  TIME  policy "none", version "0", allowed it
  TIME  prepared: 11 checks passed
  TIME  attempt 1 was claimed by worker WORKER before the call left; it may send until TIME UTC
"""
LOST = """\
  TIME  the response to attempt 1 was lost: the effect's code raised an error that nobody classified \
("the effect raised Lost"); its outcome is unknown; finding out is due now
"""
RECORD = 'record "ch_1", amount USD 85.00, state "succeeded"'
DONE = """\
  TIME  the program left the run normally: it is done
  TIME  the run's ending is completed: the program is done and nothing is left open
"""
DECLINED = r'"the card was declined \u{1b}[31m[red]now[/red]\u{202e}"'

STORIES = {
    "declined": f"""\
  TIME  the request failed, the destination refused it: code "card_declined" (status 402, {DECLINED}); nothing happened
  TIME  the program left the run with an exception
  TIME  the run's ending is failed_clean: failed, and nothing of it happened

charge on "order:declined" is not_committed: the request failed for certain, and nothing happened. \
Why: code "card_declined" ({DECLINED}). Nothing is owed. To have it done after all: correct the request and ask again, \
or repeat it on purpose with again=.

The run's ending is failed_clean: failed, and nothing of it happened.
""",
    "unsure": f"""\
{LOST}\
  TIME  reconciliation: lookup 1 was started
  TIME  the lookup settled nothing: the lookup could not tell ("the index is being rebuilt"); the next look is due at \
TIME UTC

charge on "order:unsure" is outcome_unknown: a response was lost, so it may or may not have happened; 1 lookup did not \
settle it. Why: the lookup could not tell ("the index is being rebuilt"). Next: recovery goes on at TIME UTC; it runs \
in the application, or by `amends recover MODULE:APP`.

The run has no ending yet: work is going on, or the program has not left it.
""",
    "ok": f"""\
  TIME  the destination answered attempt 1: the remote commit succeeded with {RECORD}
  TIME  the verifying read was started
  TIME  the postcondition was verified by a read of the destination
{DONE}
charge on "order:ok" is verified: it happened and was verified, with {RECORD}. Nothing is owed.

The run's ending is completed: the program is done and nothing is left open.
""",
    "lost": f"""\
{LOST}\
  TIME  reconciliation: lookup 1 was started
  TIME  the lookup found exactly one record with our key: {RECORD}; it was adopted
  TIME  the verifying read was started
  TIME  the postcondition was verified by a read of the destination
{DONE}
charge on "order:lost" is verified: it happened and was verified, with {RECORD}. Nothing is owed.

The run's ending is completed: the program is done and nothing is left open.
""",
    "reversed": f"""\
  TIME  the destination answered attempt 1: the remote commit succeeded with {RECORD}
  TIME  the verifying read was started
  TIME  verification failed: what is there is not what was intended ("the charge was reversed by the bank")
  TIME  the run's ending is failed_reconciliation_required: failed, and what happened still has to be reconciled
  TIME  the program left the run with an exception

charge on "order:reversed" is reconciliation_required: the remote commit succeeded with {RECORD}, and it is not as \
intended. Why: what is there is not what was intended ("the charge was reversed by the bank"). Next: the owner of \
charge must act; nothing is sent again meanwhile. Put right at the destination what is wrong. Evidence is kept beside \
the contradiction and does not take it away: it stays visible, and nothing is sent for it again.

The run's ending is failed_reconciliation_required: failed, and what happened still has to be reconciled.
""",
    "unlooked": f"""\
{LOST}\
  TIME  handed over to "dispatch": there is no lookup that could find out
  TIME  the run's ending is unknown: what happened is not known yet

parcel on "parcel:unlooked" is human_required: a response was lost, so it may or may not have happened; reconciliation \
never ran. Why: there is no lookup that could find out. Next: "dispatch" must act; nothing is sent again meanwhile. \
Look for it at the destination, under key KEY. Is it there: give every record of it, `await app.evidence("OPERATION", \
Receipt(resource="...", correlation="KEY"))`, or Found(...) with several. Is it surely not there, and cannot arrive \
any more: a program may ask once more on purpose, `run.do(..., again="2")`; this one stays open as it is.

The run's ending is unknown: what happened is not known yet.
""",
    "killed": """\

charge on "order:killed" is committing: attempt 1 is claimed and has no recorded end. NEXT

The run has no ending yet: work is going on, or the program has not left it.
""",
}


def normal(text: str) -> str:
    """``text`` without what differs from run to run."""
    text = re.sub(r"^\d{4}-\d\d-\d\d \(UTC\)\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d\.\d{3})Z", r"\1 UTC", text)
    text = re.sub(r"\d\d:\d\d:\d\d\.\d{3}", "TIME", text)
    text = re.sub(r"run_[a-z2-7]{26}", "RUN", text).replace("run RUN", "run RUN")
    text = re.sub(r"am1_[a-z2-7]{32}", "KEY", text)
    text = re.sub(r"op_[a-z2-7]{26}", "OPERATION", text)
    text = re.sub(r"worker [0-9a-f]{18}", "worker WORKER", text)
    return re.sub(r"has no recorded end\. Next: .*", "has no recorded end. NEXT", text)


@pytest.mark.requirement("R14", "R17", "R19", "R20", "R21")
@pytest.mark.parametrize("order", STORIES)
def test_the_story_is_told_in_words(sold: Path, order: str) -> None:
    target = "parcel:unlooked" if order == "unlooked" else f"order:{order}"
    said = call("why", target, "--ledger", str(sold / "ledger.db"))
    opened = OPENED.format(order=order)
    if order == "unlooked":
        opened = opened.replace('charge on "order:unlooked"', 'parcel on "parcel:unlooked"')
    assert said.code == 0
    assert normal(said.out) == opened + STORIES[order]


@pytest.mark.slow
@pytest.mark.requirement("R14")
def test_the_situations_differ_in_one_word_each(sold: Path) -> None:
    def situation(target: str) -> str:
        said = call("why", target, "--ledger", str(sold / "ledger.db"), "--json")
        return next(json.loads(line)["situation"] for line in said.out.splitlines() if '"standing"' in line)

    told = {order: situation(f"order:{order}") for order in ("declined", "unsure", "ok", "reversed", "several")}
    assert {**told, "unlooked": situation("parcel:unlooked")} == {
        "declined": "request_failed",
        "unsure": "response_lost",
        "ok": "verified",
        "reversed": "verification_failed",
        "several": "contradiction_found",
        "unlooked": "reconciliation_never_ran",
    }
