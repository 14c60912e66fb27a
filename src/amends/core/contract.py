"""What a destination promises, as data (R23).

A contract belongs to an endpoint and names its source. It says how a repeat is recognised, for how
long, what happens to changed parameters and stored errors, how an authoritative read behaves, and how
late a sent request may still take effect. What is not declared is not promised: an undeclared lag or
late-arrival bound is unbounded, and an undeclared mechanism is none.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

_ENDPOINT: Final = re.compile(r"[A-Z]+ /[^\s?#]*", re.ASCII)


class Mechanism(StrEnum):
    """How the destination itself refuses or absorbs a repeat."""

    NONE = "none"
    IDEMPOTENCY_KEY = "idempotency_key"
    CONDITIONAL_CREATE = "conditional_create"
    COMPARE_AND_SET = "compare_and_set"


class Lookup(StrEnum):
    """How an authoritative read of this endpoint behaves."""

    NONE = "none"
    STRONG = "strong"
    EVENTUAL = "eventual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One endpoint's promises.

    Args:
        name: e.g. ``stripe.v1``.
        endpoint: the method and path they are about, e.g. ``POST /v1/charges/{id}/capture``; a field in
            braces stands for one segment. Empty is the destination as a whole.
        mechanism: how a repeat is recognised.
        idempotency_header: the header that carries the key; empty where there is none.
        key_retention_s: how long the destination remembers a key; ``None`` is not published, and then
            the key proves nothing later. State-based mechanisms do not expire.
        replays_success: the same key with the same parameters gives the first answer again.
        replays_errors: a stored 5xx is given again under the same key.
        refuses_changed_parameters: other parameters under one key are refused.
        lookup: how its authoritative read behaves.
        lookup_lag_s: how long a read may miss a commit; ``None`` is unbounded. 0 for a strong read.
        late_arrival_bound_s: how long after its budget a sent request may still take effect, pauses and
            queues included; ``None`` is unbounded.
        creator: the name under which we act there, compared with a record's creator.
        key_chars_max: the longest key it takes.
        key_conflict: how it says "this key had other parameters", as ``(status, error code)`` pairs.
        key_in_progress: how it says "the first request still runs", likewise.
        already_exists: how it says "there is one of this name". That is not a refusal: it may be ours.
        precondition_failed: how it says "the version is another one": nothing was done.
        refused_for_now: further answers that surely mean "nothing was done, try later", as 429 does by itself.
        refused: further answers that surely mean "nothing was done". What means it by itself need not be
            here: a 4xx, save 408 and 409, which say nothing unless the contract does.
        error_code_at: where in an error's JSON its codes may stand, dotted.
        source: where these facts are published.
        note: what a person must know and no field says.
    """

    name: str
    endpoint: str = ""
    mechanism: Mechanism = Mechanism.NONE
    idempotency_header: str = ""
    key_retention_s: float | None = None
    replays_success: bool = False
    replays_errors: bool = False
    refuses_changed_parameters: bool = False
    lookup: Lookup = Lookup.NONE
    lookup_lag_s: float | None = None
    late_arrival_bound_s: float | None = None
    creator: str | None = None
    key_chars_max: int = 255
    key_conflict: tuple[tuple[int, str], ...] = ((422, ""),)
    key_in_progress: tuple[tuple[int, str], ...] = ()
    already_exists: tuple[tuple[int, str], ...] = ()
    precondition_failed: tuple[tuple[int, str], ...] = ((412, ""),)
    refused_for_now: tuple[tuple[int, str], ...] = ()
    refused: tuple[tuple[int, str], ...] = ()
    error_code_at: tuple[str, ...] = ("error.code", "error.type")
    source: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("key_retention_s", "lookup_lag_s", "late_arrival_bound_s"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{self.name}: {name} is {value!r}; it must be finite and not negative")
        if self.endpoint and not _ENDPOINT.fullmatch(self.endpoint):
            raise ValueError(f"{self.name}: endpoint is {self.endpoint!r}; write e.g. 'POST /v1/charges/{{id}}'")

    def covers(self, method: str, path: str) -> bool:
        """Whether ``endpoint`` is about this request; an empty one is about every request."""
        if not self.endpoint:
            return True
        its_method, _, pattern = self.endpoint.partition(" ")
        wanted, given = pattern.split("/"), path.split("/")
        return (
            its_method == method.upper()
            and len(wanted) == len(given)
            and all(
                want == have or (want.startswith("{") and have != "") for want, have in zip(wanted, given, strict=True)
            )
        )

    def with_(self, **changes: object) -> "Contract":
        """The same contract with some facts replaced; say why in ``source``."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def key_retention_ms(self) -> int | None:
        """``key_retention_s`` in milliseconds."""
        return None if self.key_retention_s is None else int(self.key_retention_s * 1000)

    @property
    def lookup_lag_ms(self) -> int | None:
        """``lookup_lag_s`` in milliseconds; a strong read lags 0 unless declared otherwise."""
        if self.lookup_lag_s is None:
            return 0 if self.lookup is Lookup.STRONG else None
        return int(self.lookup_lag_s * 1000)

    @property
    def late_arrival_bound_ms(self) -> int | None:
        """``late_arrival_bound_s`` in milliseconds."""
        return None if self.late_arrival_bound_s is None else int(self.late_arrival_bound_s * 1000)


LOCAL = Contract(name="local", source="no destination was declared: nothing is promised")
"""What an effect without a destination gets."""
