"""What a person can do where nothing goes on by itself, in words.

Only what there is: evidence, a program that asks again, and putting things right at the destination. A
person is never told to do what would double an effect.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from amends.core.end_state import EndState
from amends.core.model import Operation, RunState
from amends.core.response import COMPLETABLE
from amends.core.safe_text import quoted, visible
from amends.core.standing import Waits
from amends.core.states import STANDS, UNRESOLVED, State
from amends.core.wording import because

SHOWN_MAX: Final = 5
"""How many effects one sentence names; the rest are counted."""


class Open(NamedTuple):
    """Something of a run that is open beside its own operations: a stable word, the sentence, and who acts."""

    reason: str
    says: str
    waits_for: Waits


def can_be_done(operation: Operation) -> str:
    """What a person can do for ``operation``, as sentences; empty where nothing waits for one."""
    receipt = f'await app.evidence("{operation.id}", Receipt(resource="...", correlation="{operation.key}"))'
    match operation.state:
        case State.HUMAN_REQUIRED:
            return (
                f"Look for it at the destination, under key {operation.key}. Is it there: give every record of it, "
                f"`{receipt}`, or Found(...) with several. Is it surely not there, and cannot arrive any more: a "
                'program may ask once more on purpose, `run.do(..., again="2")`; this one stays open as it is.'
            )
        case State.RECONCILIATION_REQUIRED if operation.reason in COMPLETABLE:
            return f"Look at the destination; is it as intended, give the proof that was lacking: `{receipt}`."
        case State.RECONCILIATION_REQUIRED:
            return (
                "Put right at the destination what is wrong. Evidence is kept beside the contradiction and does not "
                "take it away: it stays visible, and nothing is sent for it again."
            )
        case State.AWAITING_APPROVAL:
            return "Decide on it."
        case State.COMPENSATION_FAILED:
            return "Offset the effect at the destination by hand."
        case _:
            return ""


def open_points(state: RunState) -> list[Open]:
    """What of the run is open beside its own operations that are not settled; empty when nothing is."""
    return [*_end_state(state.end_state), *_joined(state), *_standing(state)]


def _end_state(known: EndState) -> Iterator[Open]:
    why = because(known.why) if known.why else ""
    detail = f" ({quoted(known.detail)})" if known.detail else ""
    if known.said == "failed":
        yield Open(
            known.why or "end_state",
            f"its end state does not hold: {why or 'the query said no'}{detail}. Put it right, then run the program "
            "again with the same event: its end state is asked once more",
            Waits.PERSON,
        )
    elif known.said == "pending":
        yield Open("end_state_pending", f"its end state does not hold yet{detail}", Waits.RECOVERY)
    elif known.said == "unavailable":
        yield Open("end_state_unavailable", f"its end state could not be asked for{detail}", Waits.RECOVERY)
    elif known.open:
        yield Open("end_state_not_asked", "its end state has still to be asked for", Waits.RECOVERY)


def _joined(state: RunState) -> Iterator[Open]:
    for name, other in state.joined.items():
        if other.state in UNRESOLVED:
            what = f"the operation {visible(name, 80)} of run {visible(other.run, 80)}, which it shares"
            yield Open("shared_operation", f"{what}, is {other.state.value}", Waits.PERSON)


def _standing(state: RunState) -> Iterator[Open]:
    """A program that failed, and what it had done by then."""
    if state.closed in (None, "returned") or any(op.state in UNRESOLVED for op in state.unfinished.values()):
        return
    stand = [op for op in state.operations.values() if op.state in STANDS]
    if not stand or state.ending is None:
        return
    named = [f"{visible(op.action, 80)} {visible(op.id, 80)}" for op in stand[:SHOWN_MAX]]
    rest = [f"{len(stand) - SHOWN_MAX} more"] if len(stand) > SHOWN_MAX else []
    left = "its deadline passed" if state.closed == "deadline" else "its program left it with an exception"
    yield Open(
        "effects_stand",
        f"{left}, and what it had done stands: {', '.join(named + rest)}. Run the program again with the same event "
        "to finish it, or undo them at the destination",
        Waits.PERSON,
    )
