"""What a program passes when it opens a run or brings evidence, checked before anything is done with it."""

import inspect
import math
from typing import Final

from amends.core import told
from amends.core.evidence import Found, Receipt
from amends.core.identity import EVENT_CHARS_MAX, REGISTRATIONS, TENANT_CHARS_MAX
from amends.errors import AwaitingApproval, LedgerUnavailable, OutcomeUnknown, UsageError
from amends.service.registry import Effect, Read

NAME_CHARS_MAX: Final = 128
"""A run type, a principal, an intent: names, never documents."""

PROSE_CHARS_MAX: Final = 10_000
"""A reason: a few paragraphs. What is longer belongs into the system that the event comes from."""

SECONDS_MAX: Final = 10 * 365 * 86_400
"""The longest deadline: ten years. More is a mistake in the unit."""

NOT_NOW: Final = (OutcomeUnknown, AwaitingApproval, LedgerUnavailable)
"""Leaving a block with one of these says "not now": the run stays open (design/0004)."""


def check_run(
    *,
    type: str,
    event: str,
    tenant: str,
    principal: str,
    reason: str,
    intent: str | None,
    deadline_s: float,
    wait_s: float,
) -> None:
    """Check what ``app.run`` was given.

    Raises:
        UsageError: it names the argument and what it takes.
    """
    if type == REGISTRATIONS:
        raise UsageError(f"the run type {REGISTRATIONS!r} is Amends' own; use another name")
    _name("type", type)
    _name("event", event, EVENT_CHARS_MAX)
    _name("tenant", tenant, TENANT_CHARS_MAX)
    _name("principal", principal)
    if intent is not None:
        _name("intent", intent)
    _text("reason", reason, PROSE_CHARS_MAX)
    _seconds("deadline_s", deadline_s, least=0.0)
    _seconds("wait_s", wait_s, least=0.0)


def check_effect(said: object, verb: str) -> None:
    """Check that ``run.do`` or ``run.propose`` was given an effect.

    Raises:
        UsageError: it says what was given, and which decorator makes an effect of it.
    """
    if isinstance(said, Effect):
        return
    hint = "ask for it with run.read" if isinstance(said, Read) else "register it with @app.effect(...), and pass that"
    raise UsageError(f"run.{verb} takes an effect and was given {_shown(said)}: {hint}")


def check_read(said: object) -> None:
    """Check that ``run.read`` was given a read.

    Raises:
        UsageError: it says what was given, and what to do with it.
    """
    if isinstance(said, Read):
        return
    hint = "make it happen with run.do" if isinstance(said, Effect) else "declare it with @app.read(...), and pass that"
    raise UsageError(f"run.read takes a declared read and was given {_shown(said)}: {hint}")


def _shown(said: object) -> str:
    if isinstance(said, Effect | Read):
        return f"the {type(said).__name__.lower()} {said.name!r}"
    if inspect.isroutine(said):
        return f"the function {said.__name__!r}"
    return f"{said!r:.80} (a {type(said).__name__})"


def receipts_of(said: object) -> tuple[Receipt, ...]:
    """The receipts in evidence from outside.

    Raises:
        UsageError: it is neither a receipt nor what a lookup found.
    """
    if isinstance(said, Receipt):
        return (said,)
    if isinstance(said, Found):
        return said.matches
    raise UsageError(
        f"evidence is {told.article(said)}; give a Receipt, or Found(...) with every record that matches. "
        "That nothing is there can only be found out by the effect's own lookup"
    )


def leaves_open(error: BaseException) -> bool:
    """Whether leaving a block with ``error`` leaves its run open; a group does if anything in it does."""
    if isinstance(error, BaseExceptionGroup):
        return any(leaves_open(each) for each in error.exceptions)
    return isinstance(error, NOT_NOW) or not isinstance(error, Exception)


def _name(what: str, value: object, chars_max: int = NAME_CHARS_MAX) -> None:
    _text(what, value, chars_max)
    if not str(value).strip():
        raise UsageError(f"app.run(): {what}={value!r} names nothing")


def _text(what: str, value: object, chars_max: int) -> None:
    try:
        told.text(what, value, chars_max)
    except told.ToldError as error:
        raise UsageError(f"app.run(): {error}") from None


def _seconds(what: str, value: object, *, least: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not (number and least <= value <= SECONDS_MAX):  # type: ignore[operator]  # a number by then
        raise UsageError(f"app.run(): {what}={value!r}; it is a number of seconds from {least:g} to {SECONDS_MAX}")
