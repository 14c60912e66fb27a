"""Reading the destination: lookups and verifications, with their time limit.

A read that raises, takes too long or answers something else could not tell. It is never "absent" and
never "failed".
"""

import asyncio
from typing import Any, Final

from amends.core import told
from amends.core.evidence import (
    Absent,
    Failed,
    Found,
    Observation,
    Pending,
    Receipt,
    Unavailable,
    Unsure,
    Verification,
    Verified,
)
from amends.core.failures import CallEnded, clip
from amends.core.money import Money
from amends.service.blotting import Blotter
from amends.service.call import Call
from amends.service.registry import Function
from amends.service.threads import begin

_TEXTS: Final = ("resource", "state", "version", "correlation", "creator")


async def look(lookup: Function, call: Call) -> Observation:
    """What ``lookup`` says."""
    said = await _said(lookup, call)
    if isinstance(said, Found | Absent | Unsure):
        return said
    return Unsure(told.sentence(said) if isinstance(said, str) else f"the lookup returned {told.article(said)}")


async def verification(verify: Function, call: Call, subject: object) -> Verification:
    """What ``verify`` says of ``subject``: a receipt, or a run that has ended."""
    said = await _said(verify, call, subject)
    if isinstance(said, Verified | Pending | Failed | Unavailable):
        return said
    return Unavailable(
        told.sentence(said) if isinstance(said, str) else f"the verification returned {told.article(said)}"
    )


async def _said(function: Function, call: Call, *args: Any) -> object:
    """What it returned; text is why there is no answer."""
    try:
        async with asyncio.timeout(call.remaining_s):
            return await begin(function, call, *args)
    except TimeoutError:
        return "no answer in time"
    except CallEnded as end:
        return end.said
    except told.ToldError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 — the boundary to user code
        return clip(f"it raised {type(error).__name__}")


def blotted_observation(observation: Observation, blotter: Blotter) -> Observation:
    """The observation as it may be recorded."""
    match observation:
        case Found():
            return Found(*[blotted(match, blotter) for match in observation.matches])
        case Absent():
            return Absent(complete=observation.complete, read=blotter.clean(observation.read))
        case Unsure():
            return Unsure(blotter.clean(observation.reason), observation.retry_after_s)


def blotted_verification(verification: Verification, blotter: Blotter) -> Verification:
    """The verification as it may be recorded."""
    match verification:
        case Verified(evidence=evidence):
            return Verified(evidence=blotter.clean(evidence))
        case Pending(retry_after_s=again, evidence=evidence):
            return Pending(retry_after_s=again, evidence=blotter.clean(evidence))
        case Failed(reason=reason, evidence=evidence):
            return Failed(blotter.clean(reason), blotter.clean(evidence))
        case Unavailable(reason=reason):
            return Unavailable(blotter.clean(reason))


def blotted(receipt: Receipt, blotter: Blotter) -> Receipt:
    """The receipt as it may be recorded. It never fails: an effect whose receipt is too long by now still happened."""
    if blotter.hides_nothing:
        return receipt
    clean = {name: blotter.clean(getattr(receipt, name)) for name in _TEXTS}
    amount = blotter.clean(receipt.amount)
    if not isinstance(amount, Money):
        amount = None  # a blot is no amount
    try:
        return Receipt(**clean, amount=amount, detail=blotter.clean(receipt.detail))
    except told.ToldError as error:
        return Receipt(**clean, amount=amount, detail={"left out": str(error)})
