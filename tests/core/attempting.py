"""One operation as the tests of the core need it, and what events make of it."""

from typing import Any

from amends.core.evidence import Expectation, Receipt
from amends.core.model import Event, Operation, RunState, apply
from amends.core.money import Money
from amends.core.states import State
from amends.core.terms import Recovery, Retry, Terms

NOW = 1_000_000
KEY = "am1_key"
EXPECTED = Expectation(correlation=KEY, amount=Money(8500, "USD"))
RECEIPT = Receipt(resource="re_1", correlation=KEY, amount=Money(8500, "USD"))
CHECKS = {"intent_current": "yes", "state_fresh": "not declared"}
TERMS = Terms(
    action="refund",
    recovery=Recovery.COMPENSATABLE,
    version="v1",
    target_template="order:{id}",
    retry=Retry(attempts=3, first_delay_s=1.0, delay_s_max=30.0),
)


def operation(state: State = State.COMMITTING, **changes: Any) -> Operation:
    values: dict[str, Any] = {
        "id": "op_1",
        "key": KEY,
        "action": "refund",
        "recovery": "compensatable",
        "state": state,
        "params_hash": "h",
        "effect_version": "v1",
        "identity": "refund.1",
        "attempts": 1,
        "attempt_ends_at": NOW + 20_000,
        "first_claim_at": NOW,
    }
    return Operation(**{**values, **changes})


def after(current: Operation, events: list[Event], at: int = NOW) -> Operation:
    run = RunState(id="run_1", operations={"op_1": current})
    for event in events:
        run = apply(run, event, at)
    return run.operations["op_1"]
