"""Amends for synchronous callers: the same names as ``amends``, with verbs that block.

::

    from amends.sync import Amends, Call, Receipt

    app = Amends("amends.db")

    @app.effect("charge", recovery="compensatable", target="order:{order}", owner="finance", lookup="escalate")
    def charge(call: Call, *, order: str) -> Receipt: ...

    with app, app.run("replacement", event="ticket:4711") as run:
        receipt = run.do(charge, order="18431")

One event loop runs in a thread of its own; plain functions run in threads beside it, and coroutines run in it.
"""

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
from amends.service.call import SyncCall
from amends.service.call import SyncCall as Call
from amends.service.registry import Effect
from amends.sync.application import Amends
from amends.sync.run import Run

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
