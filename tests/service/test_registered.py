"""What a registration says, and that it counts: classes, owners, and what is owed after a failure (R1)."""

from pathlib import Path
from typing import Any

import pytest

from amends.bootstrap import Amends
from amends.core.contract import Contract
from amends.core.evidence import Receipt
from amends.core.terms import Exposure, Recovery, Retry
from amends.errors import UsageError
from amends.service.call import Call
from amends.service.registry import Effect

PLAIN = Contract(name="plain")


def registered(app: Amends, recovery: str, **more: Any) -> Effect:
    @app.effect("make", recovery=recovery, target="thing", owner="us", destination=PLAIN, lookup="escalate", **more)
    async def make(call: Call) -> Receipt:
        return Receipt(resource="r1", correlation=call.key)

    return make


@pytest.mark.requirement("R1")
def test_an_effect_without_a_class_or_with_another_word_is_refused_at_registration(tmp_path: Path) -> None:
    app = Amends(tmp_path / "l.db")
    with pytest.raises(TypeError, match="recovery"):
        app.effect("make", target="thing", owner="us")  # type: ignore[call-arg]
    with pytest.raises((UsageError, ValueError), match="harmless"):
        registered(app, "harmless")


@pytest.mark.requirement("R1")
def test_a_registration_seals_its_owners_exposure_evidence_and_retries_into_its_terms(tmp_path: Path) -> None:
    retry = Retry(attempts=1)
    more = {"escalate_to": "oncall", "exposure": "high", "evidence": ("resource", "state"), "retry": retry}
    terms = registered(Amends(tmp_path / "l.db"), "compensatable", compensate="escalate", **more).seal()
    assert (terms.recovery, terms.owner, terms.escalate_to) == (Recovery.COMPENSATABLE, "us", "oncall")
    assert (terms.exposure, terms.evidence, terms.retry) == (Exposure.HIGH, ("resource", "state"), retry)


@pytest.mark.requirement("R1")
@pytest.mark.parametrize(
    ("recovery", "ending"),
    [
        ("compensatable", "failed_reconciliation_required"),
        ("irreversible", "failed_with_irreversible_effect"),
        ("unknown", "failed_with_irreversible_effect"),
    ],
)
async def test_a_failed_run_with_an_effect_of_unknown_class_ends_as_with_an_irreversible_one(
    tmp_path: Path, recovery: str, ending: str
) -> None:
    app = Amends(tmp_path / "l.db")
    make = registered(app, recovery, **({"compensate": "escalate"} if recovery == "compensatable" else {}))
    async with app:
        with pytest.raises(ZeroDivisionError):
            async with app.run("job", event="e:1") as run:
                await run.do(make)
                raise ZeroDivisionError
        assert run.outcome() == ending
