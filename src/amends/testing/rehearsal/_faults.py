"""What the fault proxy is told to do to the next requests, and what it has done: rules and the log.

A rule is armed for a number of requests and may skip some first, so that "lose the answer of the third write" is one
line in a test and needs no timing. The log is the ground truth a test compares a ledger with: what was really
forwarded, how often, and what the upstream really answered.
"""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

MODES: Final = (
    "refuse",  # reset the connection before reading; counts connections, whatever they would have sent
    "refuse_connect",  # the listening socket is closed until disarmed; connecting is refused
    "drop_request",  # read all, forward nothing, close
    "drop_response",  # forward, wait for the whole answer, close without a byte
    "cut",  # forward, give the head and half of the body, close
    "hang",  # forward, wait for the whole answer, then stay silent until the client leaves or release
    "late",  # close (or stay silent) at once; forward after delay_ms, or on release
    "duplicate",  # forward twice, give the first or the last answer
    "latency",  # forward after delay_ms, or on release
)
MUTATIONS: Final = frozenset({"POST", "PUT", "PATCH", "DELETE", "DATA"})
"""The methods a rule matches unless told otherwise; DATA is the SMTP transaction."""

LOG_ENTRIES_MAX: Final = 10_000
TIMES_MAX: Final = 1_000_000
DELAY_MS_MAX: Final = 600_000


@dataclass(slots=True, kw_only=True)
class Rule:
    """One armed fault. `delay_ms` None with late or latency means: hold until released."""

    mode: str
    times: int = 1
    after: int = 0
    delay_ms: int | None = None
    hold: bool = False
    methods: frozenset[str] = MUTATIONS
    path: str = ""
    client: str = "close"
    answer: str = "first"

    def matches(self, method: str, path: str) -> bool:
        return ("*" in self.methods or method in self.methods) and path.startswith(self.path)

    def describe(self) -> dict[str, Any]:
        return {**asdict(self), "methods": sorted(self.methods)}


@dataclass(slots=True, kw_only=True)
class Entry:
    """What happened to one request (or, for refuse, to one connection)."""

    seq: int
    method: str
    path: str
    mode: str
    key: str | None = None
    forwarded: int = 0
    upstream_statuses: list[int] = field(default_factory=list)
    upstream_error: str | None = None
    answered: bool = False
    at_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def describe(self) -> dict[str, Any]:
        statuses = self.upstream_statuses
        return {**asdict(self), "upstream_status": statuses[-1] if statuses else None}


class Faults:
    """Armed rules in order, and the log."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.log: deque[Entry] = deque(maxlen=LOG_ENTRIES_MAX)
        self._seq = 0

    def arm(self, rule: Rule) -> None:
        self.rules.append(rule)

    def disarm(self) -> None:
        self.rules.clear()

    def take_connection(self) -> Rule | None:
        """The rule a new connection falls under before anything is read."""
        return self._take(lambda rule: rule.mode == "refuse")

    def take(self, method: str, path: str) -> Rule | None:
        """The rule this request falls under, used up by one."""
        at_request = ("refuse", "refuse_connect")
        return self._take(lambda rule: rule.mode not in at_request and rule.matches(method, path))

    def note(self, method: str, path: str, rule: Rule | None, key: str | None = None) -> Entry:
        """Start the log entry of a request."""
        self._seq += 1
        entry = Entry(seq=self._seq, method=method, path=path, mode=rule.mode if rule else "none", key=key)
        self.log.append(entry)
        return entry

    def _take(self, applies: Any) -> Rule | None:
        """The first applying rule that has nothing left to skip; each rule passed over skips one."""
        for rule in self.rules:
            if not applies(rule):
                continue
            if rule.after > 0:
                rule.after -= 1
                continue
            rule.times -= 1
            if rule.times == 0:
                self.rules.remove(rule)
            return rule
        return None


def parse_rule(body: Mapping[str, Any]) -> Rule | str:
    """A rule from a control request, or why it is refused; unknown fields are, so that no typo disarms a test."""
    known = {"mode", "times", "after", "delay_ms", "hold", "methods", "path", "client", "answer"}
    if extra := sorted(set(body) - known):
        return f"unknown fields {extra!r}; there are {sorted(known)!r}"
    if body.get("mode") not in MODES:
        return f"mode must be one of {MODES!r}, got {body.get('mode')!r}"
    for name, least, most in (("times", 1, TIMES_MAX), ("after", 0, TIMES_MAX), ("delay_ms", 0, DELAY_MS_MAX)):
        value = body.get(name, least)
        if type(value) is not int or not least <= value <= most:
            return f"{name} must be a whole number from {least} to {most}, got {value!r}"
    choices = {"client": ("close", "hang"), "answer": ("first", "last"), "hold": (True, False)}
    for name, words in choices.items():
        if name in body and body[name] not in words:
            return f"{name} must be one of {words!r}, got {body[name]!r}"
    methods = body.get("methods", sorted(MUTATIONS))
    if not isinstance(methods, list) or not all(isinstance(method, str) for method in methods):
        return f"methods must be a list of method names, got {methods!r}"
    if not isinstance(body.get("path", ""), str):
        return f"path must be text, got {body['path']!r}"
    rule = Rule(**{**body, "methods": frozenset(method.upper() for method in methods)})
    rule.delay_ms = None if rule.hold else rule.delay_ms
    return rule
