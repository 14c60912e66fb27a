"""A destination that counts what it made, and an effect on it."""

from typing import Any

from terms import FENCED, QUICK

from amends.bootstrap import Amends
from amends.core.evidence import Absent, Found, Observation, Receipt
from amends.service.call import Call, SyncCall
from amends.service.registry import Effect


class Place:
    """A destination that counts: ``made`` by key, ``arguments`` as they arrived."""

    def __init__(self) -> None:
        self.made: dict[str, Receipt] = {}
        self.calls: list[Call] = []

    def take(self, call: Call | SyncCall) -> Receipt:
        receipt = Receipt(resource=f"r{len(self.made)}", correlation=call.key)
        return self.made.setdefault(call.key, receipt)

    async def make(self, call: Call, **_: object) -> Receipt:
        self.calls.append(call)
        return self.take(call)

    async def find(self, call: Call) -> Observation:
        ours = self.made.get(call.key)
        return Found(ours) if ours else Absent(complete=True)


def effect_of(app: Amends, place: Place, **options: Any) -> Effect:
    """An effect ``make`` on ``thing:{name}`` with ``options``."""
    fields = {"recovery": "compensatable", "target": "thing:{name}", "owner": "us", "destination": FENCED}

    @app.effect("make", **{**fields, "retry": QUICK, **options})
    async def make(call: Call, *, name: str, note: Any = "") -> Receipt:
        return await place.make(call, note=note)

    make.lookup(place.find)
    return make
