"""Knobs and clock: how a test changes a destination's behaviour while it runs.

A knob is declared with its start value and its bounds; an unknown knob or a value of another type is refused, so a
misspelt knob cannot make a test pass for the wrong reason. Values and the clock's offset are kept in the store:
a destination restarted after `kill -9` behaves, and dates, as before.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from amends.testing.rehearsal._store import Store

KNOB_NUMBER_MAX: Final = 10 * 365 * 24 * 3600 * 1000
"""Ten years in milliseconds: the longest window any provider publishes is far below it."""

ADVANCE_MS_MAX: Final = KNOB_NUMBER_MAX

Value = int | bool | str


@dataclass(frozen=True, slots=True)
class Knob:
    """One declared behaviour: its start value, its words when it is a choice, its lower bound when a number."""

    start: Value
    choices: tuple[str, ...] = ()
    least: int = 0

    def refuse(self, value: object) -> str | None:
        """Why this value cannot be set, or None."""
        if type(value) is not type(self.start):
            return f"must be {type(self.start).__name__}, got {value!r}"
        if self.choices and value not in self.choices:
            return f"must be one of {self.choices!r}, got {value!r}"
        if type(value) is int and not self.least <= value <= KNOB_NUMBER_MAX:
            return f"must be from {self.least} to {KNOB_NUMBER_MAX}, got {value!r}"
        return None


COMMON_KNOBS: Final[Mapping[str, Knob]] = {
    "index_lag_ms": Knob(0),  # list answers miss objects younger than this; retrieval by id never does
    "lookup_down": Knob(False),  # every read answers 503
    "next_status": Knob(0),  # the next `next_status_times` mutations answer this status
    "next_status_times": Knob(0),
    "next_status_commits": Knob(False),  # ... after making the effect, instead of without it
    "phantom_times": Knob(0),  # answer success and make nothing
    "hold_times": Knob(0),  # hold mutations before their effect until POST /_rehearsal/release
}


class Knobs:
    """The current values; every change is written through to the store."""

    def __init__(self, store: Store, declared: Mapping[str, Knob], started: Mapping[str, Value]) -> None:
        self._store = store
        self._declared = {**COMMON_KNOBS, **declared}
        self._started = {name: knob.start for name, knob in self._declared.items()} | dict(started)
        rows = store.connection.execute("SELECT name, value FROM settings").fetchall()
        kept = {row["name"]: json.loads(row["value"]) for row in rows if row["name"] in self._declared}
        self._values: dict[str, Value] = {**self._started, **kept}

    def refuse(self, changes: Mapping[str, Any]) -> str | None:
        """Why these changes cannot be made, or None."""
        for name, value in changes.items():
            knob = self._declared.get(name)
            if knob is None:
                return f"unknown knob {name!r}; this destination has {sorted(self._declared)!r}"
            if reason := knob.refuse(value):
                return f"{name} {reason}"
        return None

    def change(self, changes: Mapping[str, Any]) -> None:
        """Set knobs. A status without a count means the next mutation only."""
        made = dict(changes)
        if "next_status" in made:
            made.setdefault("next_status_times", 1)
            made.setdefault("next_status_commits", False)
        for name, value in made.items():
            self._set(name, value)

    def reset(self) -> None:
        """Back to the values the process was started with."""
        self._values = dict(self._started)

    def flag(self, name: str) -> bool:
        return bool(self._values[name])

    def number(self, name: str) -> int:
        return int(self._values[name])

    def word(self, name: str) -> str:
        return str(self._values[name])

    def spend(self, name: str) -> bool:
        """Use up one of a counted behaviour; False when none is left."""
        left = self.number(name)
        if left <= 0:
            return False
        self._set(name, left - 1)
        return True

    def values(self) -> dict[str, Value]:
        """All knobs as they stand."""
        return dict(self._values)

    def _set(self, name: str, value: Value) -> None:
        self._values[name] = value
        keep_setting(self._store, name, value)


class Clock:
    """The real clock plus an offset that tests advance, in Unix milliseconds."""

    _NAME = "clock_offset_ms"

    def __init__(self, store: Store) -> None:
        self._store = store
        row = store.connection.execute("SELECT value FROM settings WHERE name = ?", (self._NAME,)).fetchone()
        self.offset_ms: int = int(json.loads(row["value"])) if row else 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.offset_ms

    def advance(self, ms: int) -> None:
        """Move forward; going back would date new objects before old ones."""
        self.offset_ms += ms
        keep_setting(self._store, self._NAME, self.offset_ms)

    def reset(self) -> None:
        self.offset_ms = 0


def keep_setting(store: Store, name: str, value: Value) -> None:
    """Write one setting; joins the caller's transaction when there is one."""
    store.connection.execute(
        "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, json.dumps(value)),
    )
