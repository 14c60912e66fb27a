"""The faults. Each is real: a killed process, a connection that a proxy closes, a destination that lags.

The shop's code is the same in all of them and is told nothing.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from amends.core.model import Operation
from amends.core.states import State
from amends.demo.crew import StageError
from amends.demo.stage import Performance

LIST_LAGS_MS: Final = 4_000
"""Less than the lag that the shop's contract declares, and more than a first look is late."""

EXPIRES_MS: Final = 25 * 3_600_000
"""The payment service forgets a key after 24 hours."""


def cause(fault: str, it: Performance) -> None:
    """Perform the run with ``fault``, to its end or to where it must stay."""
    _FAULTS[fault](it)


def _none(it: Performance) -> None:
    it.finish(it.worker("a worker"))


def _kill_after_payment(it: Performance) -> None:
    _kill_between_commit_and_record(it)
    it.let_dead_attempt_end()
    it.finish(it.worker("a new worker"))


def _expired_key(it: Performance) -> None:
    _kill_between_commit_and_record(it)
    it.let_dead_attempt_end(
        and_then_ms=EXPIRES_MS, why=f"{it.border.name} forgets the key; sent again it would be a second effect"
    )
    it.finish(it.worker("a new worker"))


def _kill_between_commit_and_record(it: Performance) -> None:
    it.arm("hang")
    first = it.worker("a worker")
    it.held(first)
    first.kill()
    it.tell(f"{it.border.name} has committed; before its answer arrives the worker is killed (SIGKILL)")
    it.border.release()


def _lost_response(it: Performance) -> None:
    it.arm("drop_response")
    it.finish(it.worker("a worker"))


def _late_response(it: Performance) -> None:
    it.arm("late", hold=True)
    arrived: list[bool] = []

    def arrive(first: Operation) -> None:
        if not arrived and (_repeated(first) if it.scenario.late_repeats else _missed(first)):
            it.tell(f"now the request that was held up arrives at {it.border.name}")
            it.border.release()
            arrived.append(True)

    it.finish(it.worker("a worker"), at=arrive)
    if not arrived:
        it.border.release()
        raise StageError("the request that was held up never arrived; nothing was rehearsed")


def _missed(first: Operation) -> bool:
    """A look came too early to prove anything."""
    return first.state is State.OUTCOME_UNKNOWN and first.reason == "read_before_settled"


def _repeated(first: Operation) -> bool:
    """The effect was sent again, and answered."""
    return first.attempts > 1 and first.receipt is not None


def _duplicate_event(it: Performance) -> None:
    it.finish(it.worker("a worker"), it.worker("a second worker"))
    it.finish(it.worker("a third worker"))


def _lookup_lag(it: Performance) -> None:
    it.border.control(index_lag_ms=LIST_LAGS_MS)
    try:
        _lost_response(it)
    finally:
        it.border.control(index_lag_ms=0)


def _lookup_down(it: Performance) -> None:
    it.arm_reads()
    try:
        _lost_response(it)
    finally:
        it.border.disarm()


_FAULTS: Final[Mapping[str, Callable[[Performance], None]]] = MappingProxyType(
    {
        "none": _none,
        "kill-after-payment": _kill_after_payment,
        "lost-response": _lost_response,
        "late-response": _late_response,
        "duplicate-event": _duplicate_event,
        "lookup-lag": _lookup_lag,
        "lookup-down": _lookup_down,
        "expired-key": _expired_key,
    }
)
