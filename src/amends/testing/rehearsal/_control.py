"""The control surface under `/_rehearsal/`: counts, logs, knobs, clock, gate, reset.

It answers even when lookups are down, and counts from the store at the moment of asking.
"""

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from amends.testing.rehearsal._gate import HELD_WAIT_MS_MAX
from amends.testing.rehearsal._knobs import ADVANCE_MS_MAX
from amends.testing.rehearsal._service import Service
from amends.testing.rehearsal._wire import BODY_BYTES_MAX, Answer, error

_ARRIVAL_FILTERS = frozenset({"key", "path", "method", "account"})


def control_routes(service: Service) -> list[Route]:
    """The routes of one service's control surface."""
    surface = _Control(service)
    return [
        Route("/_rehearsal/effects", surface.effects, methods=["GET"]),
        Route("/_rehearsal/arrivals", surface.arrivals, methods=["GET"]),
        Route("/_rehearsal/control", surface.knobs, methods=["GET"]),
        Route("/_rehearsal/control", surface.change, methods=["POST"]),
        Route("/_rehearsal/advance_clock", surface.advance_clock, methods=["POST"]),
        Route("/_rehearsal/held", surface.held, methods=["GET"]),
        Route("/_rehearsal/release", surface.release, methods=["POST"]),
        Route("/_rehearsal/reset", surface.reset, methods=["POST"]),
    ]


async def read_json(request: Request) -> dict[str, Any] | Answer:
    """The bounded JSON object of a request; no body is an empty object."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            return error(413, "body_too_large", f"a body has at most {BODY_BYTES_MAX} bytes")
    try:
        parsed = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        return error(400, "body_invalid", "the body is not JSON")
    return parsed if isinstance(parsed, dict) else error(400, "body_invalid", "the body is not a JSON object")


class _Control:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def effects(self, request: Request) -> Response:
        effects, filters = self._service.destination.effects, dict(request.query_params)
        if not any(effect.filters.issuperset(filters) for effect in effects.values()):
            known = {name: sorted(effect.filters) for name, effect in effects.items()}
            return _refused(f"no effect has all of {sorted(filters)!r}; filters are {known!r}")
        return JSONResponse({"effects": self._service.store.count(effects, filters)})

    async def arrivals(self, request: Request) -> Response:
        filters = dict(request.query_params)
        if unknown := sorted(set(filters) - _ARRIVAL_FILTERS):
            return _refused(f"unknown filters {unknown!r}; there are {sorted(_ARRIVAL_FILTERS)!r}")
        return JSONResponse({"arrivals": self._service.store.arrivals(filters)})

    async def knobs(self, request: Request) -> Response:
        return self._standing()

    async def change(self, request: Request) -> Response:
        body = await read_json(request)
        refusal = "the body must be a JSON object" if isinstance(body, Answer) else await self._service.change(body)
        return _refused(refusal) if refusal else self._standing()

    async def advance_clock(self, request: Request) -> Response:
        body = await read_json(request)
        ms = None if isinstance(body, Answer) else body.get("ms")
        if type(ms) is not int or not 0 <= ms <= ADVANCE_MS_MAX:
            return _refused(f"ms must be a whole number from 0 to {ADVANCE_MS_MAX}, got {ms!r}")
        self._service.clock.advance(ms)
        return self._standing()

    async def held(self, request: Request) -> Response:
        count, wait_ms = _wait_of(request.query_params)
        return JSONResponse({"held": await self._service.gate.wait_until_held(count, wait_ms)})

    async def release(self, request: Request) -> Response:
        return JSONResponse({"released": await self._service.gate.release()})

    async def reset(self, request: Request) -> Response:
        await self._service.reset()
        return self._standing()

    def _standing(self) -> Response:
        clock = self._service.clock
        return JSONResponse(
            {
                "knobs": self._service.knobs.values(),
                "now_ms": clock.now_ms(),
                "clock_offset_ms": clock.offset_ms,
                "held": self._service.gate.seqs,
            }
        )


def _wait_of(query: Mapping[str, str]) -> tuple[int, int]:
    """`?count=1&wait_ms=5000`, each bounded; nonsense gets the default."""
    count, wait_ms = query.get("count", "1"), query.get("wait_ms", "5000")
    return (
        int(count) if count.isdecimal() else 1,
        min(int(wait_ms), HELD_WAIT_MS_MAX) if wait_ms.isdecimal() else 5_000,
    )


def _refused(reason: str) -> Response:
    return JSONResponse(error(400, "control_refused", reason).body, 400)
