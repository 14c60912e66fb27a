"""What every rehearsal destination does with a request, around the few lines that are its own.

A mutation: log the arrival (its own commit) → answer from the key, if one is remembered → claim the key → wait at the
gate if held → one transaction: the effect, the key row and the logged status together. A read is never logged.
Everything between two awaits runs alone, because one event loop owns the one connection.
"""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from amends.testing.rehearsal._gate import Gate
from amends.testing.rehearsal._idempotency import in_use, recall, refuse_key, remember
from amends.testing.rehearsal._knobs import Clock, Knob, Knobs, Value
from amends.testing.rehearsal._store import Effect, Store
from amends.testing.rehearsal._wire import Answer, Call, error

Run = Callable[[sqlite3.Connection, Call, Knobs], Answer]
Seed = Callable[[sqlite3.Connection, Any, int], str | None]
"""Puts a state in place for a test (stock, a pick-up) without counting as an effect; answers a refusal or None."""

_GATEWAY: Final[Mapping[int, tuple[str, str, str]]] = {
    402: ("card_error", "card_declined", "the card was declined"),
    429: ("rate_limit_error", "rate_limit", "too many requests"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One route: `run` is called inside a transaction; `keyed` says it honours Idempotency-Key."""

    method: str
    path: str
    run: Run
    keyed: bool = False

    @property
    def reads(self) -> bool:
        return self.method == "GET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The declaration of one destination: everything that differs between them."""

    name: str
    schema: str
    effects: Mapping[str, Effect]
    endpoints: tuple[Endpoint, ...]
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    seeds: Mapping[str, Seed] = field(default_factory=dict)


class Service:
    """One running destination: its store, clock, knobs and gate."""

    def __init__(self, destination: Destination, path: Path, started: Mapping[str, Value]) -> None:
        self.destination = destination
        self.store: Store = Store(path, destination.schema)
        self.knobs: Knobs = Knobs(self.store, destination.knobs, started)
        self.clock: Clock = Clock(self.store)
        self.gate: Gate = Gate()
        self._in_progress: set[tuple[str, str]] = set()

    def read(self, endpoint: Endpoint, call: Call) -> Answer:
        """Answer a lookup, unless lookups are down."""
        if self.knobs.flag("lookup_down"):
            return error(503, "lookup_unavailable", "lookups are unavailable", kind="api_error")
        return endpoint.run(self.store.connection, replace(call, now_ms=self.clock.now_ms()), self.knobs)

    async def mutate(self, endpoint: Endpoint, call: Call) -> Answer:
        """Execute a mutation once, or give the answer its key is owed."""
        call = replace(call, now_ms=self.clock.now_ms())
        call = replace(call, arrival=self.store.arrive(call))
        keyed = endpoint.keyed and call.key is not None and self.knobs.flag("keys_enabled")
        if keyed and (settled := self._settled(call)):
            self._conclude(call, settled)
            return settled
        claim = (call.account, cast(str, call.key)) if keyed else None
        if claim is not None:
            self._in_progress.add(claim)
        try:
            return await self._pass_gate(endpoint, call, keyed=keyed)
        finally:
            if claim is not None:
                self._in_progress.discard(claim)

    async def change(self, changes: Mapping[str, Any]) -> str | None:
        """Set knobs and put seeds in place, all or nothing; answers why not, or None."""
        seeds = {name: value for name, value in changes.items() if name in self.destination.seeds}
        knobs = {name: value for name, value in changes.items() if name not in seeds}
        if refusal := self.knobs.refuse(knobs):
            return refusal
        try:
            with self.store.transaction() as connection:
                for name, value in seeds.items():
                    if refusal := self.destination.seeds[name](connection, value, self.clock.now_ms()):
                        raise _SeedRefusedError(f"{name}: {refusal}")
                self.knobs.change(knobs)
        except _SeedRefusedError as refused:
            return str(refused)
        return None

    async def reset(self) -> None:
        """Forget every record, setting and held request; the process stays."""
        await self.gate.release(drop=True)
        self.store.clear()
        self.knobs.reset()
        self.clock.reset()

    def _settled(self, call: Call) -> Answer | None:
        """What a keyed request is answered without being executed."""
        key = cast(str, call.key)
        if refusal := refuse_key(key):
            return refusal
        if (call.account, key) in self._in_progress:
            return in_use(key)
        return recall(self.store.connection, call, self.knobs)

    async def _pass_gate(self, endpoint: Endpoint, call: Call, *, keyed: bool) -> Answer:
        if not self.knobs.spend("hold_times"):
            return self._execute(endpoint, call, keyed=keyed)
        held = self.gate.hold(call.arrival)
        try:
            if not await held.wait():
                return error(503, "dropped", "the request was dropped while it was held", kind="api_error")
            return self._execute(endpoint, replace(call, now_ms=self.clock.now_ms()), keyed=keyed)
        finally:
            held.finished.set()

    def _execute(self, endpoint: Endpoint, call: Call, *, keyed: bool) -> Answer:
        with self.store.transaction() as connection:
            shown, kept = self._effect(connection, endpoint, call)
            if keyed:
                remember(connection, call, kept)
            _log_status(connection, call, shown)
        return shown

    def _effect(self, connection: sqlite3.Connection, endpoint: Endpoint, call: Call) -> tuple[Answer, Answer]:
        """Run the endpoint under the knobs; gives the answer to show and the one to keep under the key.

        They differ when a gateway hides the true answer: its 502 is shown, the real one is what a retry replays.
        """
        status = self.knobs.number("next_status")
        if status and self.knobs.spend("next_status_times"):
            forced = _forced(status)
            if not self.knobs.flag("next_status_commits"):
                return forced, forced
            true = endpoint.run(connection, call, self.knobs)
            return forced, forced if status in {402, 500} else true
        if self.knobs.spend("phantom_times"):
            connection.execute("SAVEPOINT phantom")
            answer = endpoint.run(connection, call, self.knobs)
            connection.execute("ROLLBACK TO phantom")
            connection.execute("RELEASE phantom")
            return answer, answer
        answer = endpoint.run(connection, call, self.knobs)
        return answer, answer

    def _conclude(self, call: Call, answer: Answer) -> None:
        with self.store.transaction() as connection:
            _log_status(connection, call, answer)


class _SeedRefusedError(Exception):
    """Rolls a half-made change of seeds back; never leaves this module."""


def _forced(status: int) -> Answer:
    kind, code, message = _GATEWAY.get(status, ("api_error", "forced", f"forced by control: {status}"))
    return error(status, code, message, kind=kind)


def _log_status(connection: sqlite3.Connection, call: Call, answer: Answer) -> None:
    connection.execute("UPDATE arrivals SET status = ? WHERE seq = ?", (answer.status, call.arrival))
