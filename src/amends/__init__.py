"""Amends: the transaction layer for AI agents.

Names are imported when first used, so ``import amends`` stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amends.bootstrap import Amends, Run
    from amends.core.contract import Contract, Lookup, Mechanism
    from amends.core.evidence import Absent, Failed, Found, Pending, Receipt, Unavailable, Unsure, Verified
    from amends.core.failures import Ambiguous, NotSent, Partial, Rejected
    from amends.core.money import Money
    from amends.core.secret import Secret
    from amends.core.terms import Retry
    from amends.destinations.http import HttpDestination
    from amends.errors import (
        AmendsError,
        AwaitingApproval,
        Cancelled,
        Compensated,
        Conflict,
        NotCommitted,
        OutcomeUnknown,
        Refused,
        Stopped,
        UsageError,
        VerificationFailed,
    )
    from amends.service.call import Call, SyncCall
    from amends.service.registry import Effect

__all__ = [
    "Absent",
    "Ambiguous",
    "Amends",
    "AmendsError",
    "AwaitingApproval",
    "Call",
    "Cancelled",
    "Compensated",
    "Conflict",
    "Contract",
    "Effect",
    "Failed",
    "Found",
    "HttpDestination",
    "Lookup",
    "Mechanism",
    "Money",
    "NotCommitted",
    "NotSent",
    "OutcomeUnknown",
    "Partial",
    "Pending",
    "Receipt",
    "Refused",
    "Rejected",
    "Retry",
    "Run",
    "Secret",
    "Stopped",
    "SyncCall",
    "Unavailable",
    "Unsure",
    "UsageError",
    "VerificationFailed",
    "Verified",
]

_HOMES = {
    "amends.bootstrap": ("Amends", "Run"),
    "amends.core.contract": ("Contract", "Lookup", "Mechanism"),
    "amends.core.evidence": (
        "Absent",
        "Failed",
        "Found",
        "Pending",
        "Receipt",
        "Unavailable",
        "Unsure",
        "Verified",
    ),
    "amends.core.failures": ("Ambiguous", "NotSent", "Partial", "Rejected"),
    "amends.core.money": ("Money",),
    "amends.core.secret": ("Secret",),
    "amends.core.terms": ("Retry",),
    "amends.destinations.http": ("HttpDestination",),
    "amends.service.call": ("Call", "SyncCall"),
    "amends.service.registry": ("Effect",),
}
_WHERE = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'amends' has no attribute {name!r}")
    value = getattr(import_module(_WHERE.get(name, "amends.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
