"""The HTTP side every rehearsal destination shares: its own routes, and the control surface under `/_rehearsal/`.

Control is not part of the rehearsed service: tests read effect counts and set knobs there, over the direct address,
never through the fault proxy. `main` is the whole program of a destination: parse, listen, announce, serve, end.
"""

import argparse
import asyncio
import json
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from amends.testing.rehearsal._extra import require_demo_extra

require_demo_extra()

import uvicorn  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import JSONResponse, Response  # noqa: E402
from starlette.routing import Route  # noqa: E402

from amends.testing.rehearsal._control import control_routes, read_json  # noqa: E402
from amends.testing.rehearsal._knobs import COMMON_KNOBS, Knob, Value  # noqa: E402
from amends.testing.rehearsal._lifecycle import announce, end_with_parent, listen, port_of  # noqa: E402
from amends.testing.rehearsal._service import Destination, Endpoint, Service  # noqa: E402
from amends.testing.rehearsal._wire import Answer, Call, account_of  # noqa: E402

Handler = Callable[[Request], Awaitable[Response]]
EXIT_WAIT_S = 1
"""How long open connections may delay the end of a server: a rehearsal's clients may hang on purpose."""


def build_app(service: Service) -> Starlette:
    """The destination's routes and its control surface as one ASGI application."""
    own = [
        Route(endpoint.path, _handler(service, endpoint), methods=[endpoint.method])
        for endpoint in service.destination.endpoints
    ]
    return Starlette(routes=[*own, *control_routes(service)])


def _handler(service: Service, endpoint: Endpoint) -> Handler:
    async def handle(request: Request) -> Response:
        body = await read_json(request) if not endpoint.reads else {}
        if isinstance(body, Answer):
            return respond(body)
        call = _call(request, body)
        answer = service.read(endpoint, call) if endpoint.reads else await service.mutate(endpoint, call)
        return respond(answer)

    return handle


def _call(request: Request, body: dict[str, Any]) -> Call:
    return Call(
        method=request.method,
        path=request.url.path,
        parameters={name: str(value) for name, value in request.path_params.items()},
        query=dict(request.query_params),
        headers=dict(request.headers),
        body=body,
        account=account_of(request.headers.get("authorization")),
        key=request.headers.get("idempotency-key"),
    )


def respond(answer: Answer) -> Response:
    """An answer as an HTTP response; 204 has no body."""
    if answer.status == 204:
        return Response(status_code=204, headers=dict(answer.headers))
    return JSONResponse(answer.body, answer.status, headers=dict(answer.headers))


class Server(uvicorn.Server):
    """A uvicorn server that announces itself and ends with status 0 on SIGTERM."""

    def __init__(self, app: Starlette, service: Service, facts: Mapping[str, int | str]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                loop="asyncio",
                ws="none",
                lifespan="off",
                access_log=False,
                log_level="warning",
                timeout_graceful_shutdown=EXIT_WAIT_S,
            )
        )
        self._service = service
        self._facts = facts

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `startup`: uvicorn would raise the signal again and end with its status."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        await super().startup(sockets)
        announce(name=self._service.destination.name, **self._facts)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._service.gate.release(drop=True)
        await super().shutdown(sockets)

    def _end(self) -> None:
        self.should_exit = True


def parse(destination: Destination, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line: the store, the port, and one option per knob (`--index-lag-ms 500`)."""
    parser = argparse.ArgumentParser(prog=f"amends.testing.rehearsal.{destination.name}")
    parser.add_argument("--store", type=Path, required=True, help="SQLite file; made when absent")
    parser.add_argument("--port", type=int, default=0, help="loopback port; 0 takes a free one")
    parser.add_argument("--smtp-port", type=int, default=0, help="mail only")
    parser.add_argument("--exit-with-stdin", action="store_true", help="end when standard input ends")
    for name, knob in {**COMMON_KNOBS, **destination.knobs}.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=_reader(knob), default=knob.start)
    return parser.parse_args(arguments)


def _reader(knob: Knob) -> Callable[[str], Value]:
    def read(raw: str) -> Value:
        value = raw if isinstance(knob.start, str) else json.loads(raw)
        if refusal := knob.refuse(value):
            raise argparse.ArgumentTypeError(refusal)
        return value

    return read


def open_service(destination: Destination, options: argparse.Namespace) -> Service:
    """The service a command line describes."""
    names = {**COMMON_KNOBS, **destination.knobs}
    return Service(destination, options.store, {name: getattr(options, name) for name in names})


async def serve(service: Service, options: argparse.Namespace, **facts: int | str) -> None:
    """Serve HTTP until SIGTERM. `facts` (mail's SMTP port) join the ready line, where `http_port` then tells the
    two sides apart."""
    listener = listen(options.port)
    port = port_of(listener)
    named = {"port": port, "http_port": port} if facts else {"port": port}
    server = Server(build_app(service), service, {**named, **facts})
    try:
        await server.serve(sockets=[listener])
    finally:
        listener.close()
        service.store.close()


def main(destination: Destination, arguments: Sequence[str] | None = None) -> None:
    """Run a destination as a program."""
    options = parse(destination, arguments)
    if options.exit_with_stdin:
        end_with_parent()
    asyncio.run(serve(open_service(destination, options), options))
