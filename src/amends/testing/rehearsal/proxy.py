"""The fault proxy: a process between a client and a destination that loses, delays and repeats on command.

It knows what really happened, because it waits for the upstream's whole answer before it loses it: `drop_response` is
a committed effect without a word, not a guess. Faults are armed on a separate control port and counted per request,
so no test needs a clock. If the upstream itself is down, the client's connection is closed without an answer.
Run it: `python -m amends.testing.rehearsal.proxy --upstream 127.0.0.1:PORT [--protocol smtp] --port 0`.
"""

import argparse
import asyncio
import json
import signal
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from amends.testing.rehearsal._faults import Faults, parse_rule
from amends.testing.rehearsal._gate import HELD_WAIT_MS_MAX, Gate
from amends.testing.rehearsal._http import BrokenMessageError, Connection, Reply, Request
from amends.testing.rehearsal._lifecycle import HOST, announce, bind, end_with_parent, listen, port_of
from amends.testing.rehearsal._proxy_http import serve_http
from amends.testing.rehearsal._proxy_smtp import serve_smtp

Session = Callable[..., Awaitable[None]]
_SESSIONS: Final[dict[str, Session]] = {"http": serve_http, "smtp": serve_smtp}
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Proxy:
    """One upstream, one public port that can be closed and opened again, one control port."""

    def __init__(self, upstream: tuple[str, int], protocol: str, port: int) -> None:
        self.faults: Faults = Faults()
        self.gate: Gate = Gate()
        self._upstream = upstream
        self._session = _SESSIONS[protocol]
        # Bound and never listening: while the listener is closed, nobody else is given its port.
        self._place = bind(port)
        self.port: int = port_of(self._place)
        self._server: asyncio.Server | None = None

    @property
    def listening(self) -> bool:
        return self._server is not None

    async def open(self) -> None:
        """Listen; does nothing when it does already."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, sock=listen(self.port))

    async def shut(self) -> None:
        """Close the listening socket, so that connecting is refused; open connections stay."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._place.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rule = self.faults.take_connection()
        if rule is not None:
            self.faults.note("", "", rule)
            reset(writer)
            return
        await self._session(reader, writer, upstream=self._upstream, faults=self.faults, gate=self.gate)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with a TCP reset instead of an orderly end."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()


class Control:
    """The control port: arm, look, release, reset."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._routes: dict[tuple[str, str], Callable[[Request], Awaitable[tuple[int, dict[str, Any]]]]] = {
            ("POST", "/fault"): self._arm,
            ("DELETE", "/fault"): self._disarm,
            ("GET", "/log"): self._log,
            ("GET", "/state"): self._state,
            ("GET", "/held"): self._held,
            ("POST", "/release"): self._release,
            ("POST", "/reset"): self._reset,
        }

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one control request."""
        client = Connection(reader, writer)
        try:
            request = await client.read_request()
            route = self._routes.get((request.method, urlsplit(request.target).path))
            status, body = await route(request) if route else (404, {"error": "no such control"})
            headers = [(b"content-type", b"application/json")]
            head, data = client.render(Reply(status, b"", headers, json.dumps(body).encode()))
            await client.write(head + data)
        except (BrokenMessageError, ConnectionError):
            pass
        finally:
            client.close()

    async def _arm(self, request: Request) -> tuple[int, dict[str, Any]]:
        try:
            body = json.loads(request.body or b"{}")
        except ValueError:
            return 400, {"error": "the body is not JSON"}
        if not isinstance(body, dict):
            return 400, {"error": "the body is not a JSON object"}
        if body == {"mode": "none"}:
            return await self._disarm(request)
        rule = parse_rule(body)
        if isinstance(rule, str):
            return 400, {"error": rule}
        self._proxy.faults.arm(rule)
        if rule.mode == "refuse_connect":
            await self._proxy.shut()
        return await self._state(request)

    async def _disarm(self, request: Request) -> tuple[int, dict[str, Any]]:
        self._proxy.faults.disarm()
        await self._proxy.open()
        return await self._state(request)

    async def _log(self, request: Request) -> tuple[int, dict[str, Any]]:
        return 200, {"log": [entry.describe() for entry in self._proxy.faults.log]}

    async def _state(self, request: Request) -> tuple[int, dict[str, Any]]:
        return 200, {
            "armed": [rule.describe() for rule in self._proxy.faults.rules],
            "held": self._proxy.gate.seqs,
            "listening": self._proxy.listening,
        }

    async def _held(self, request: Request) -> tuple[int, dict[str, Any]]:
        query = parse_qs(urlsplit(request.target).query)
        count, wait_ms = query.get("count", ["1"])[0], query.get("wait_ms", ["5000"])[0]
        if not (count.isdecimal() and wait_ms.isdecimal() and int(wait_ms) <= HELD_WAIT_MS_MAX):
            return 400, {"error": f"count and wait_ms (at most {HELD_WAIT_MS_MAX}) must be whole numbers"}
        return 200, {"held": await self._proxy.gate.wait_until_held(int(count), int(wait_ms))}

    async def _release(self, request: Request) -> tuple[int, dict[str, Any]]:
        released = set(await self._proxy.gate.release())
        entries = [entry.describe() for entry in self._proxy.faults.log if entry.seq in released]
        return 200, {"released": entries}

    async def _reset(self, request: Request) -> tuple[int, dict[str, Any]]:
        await self._proxy.gate.release(drop=True)
        self._proxy.faults.log.clear()
        return await self._disarm(request)


async def run(options: argparse.Namespace) -> None:
    """Serve until SIGTERM."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    proxy = Proxy(options.upstream, options.protocol, options.port)
    listener = listen(options.control_port)
    control = await asyncio.start_server(Control(proxy).accept, sock=listener)
    await proxy.open()
    announce(name="proxy", port=proxy.port, control_port=port_of(listener), protocol=options.protocol)
    await ended.wait()
    control.close()
    proxy.close()


def _address(raw: str) -> tuple[str, int]:
    host, _, port = raw.rpartition(":")
    if host not in {HOST, "localhost"} or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"must be {HOST}:PORT, got {raw!r}")
    return HOST, int(port)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the proxy as a program."""
    parser = argparse.ArgumentParser(prog="amends.testing.rehearsal.proxy")
    parser.add_argument("--upstream", type=_address, required=True)
    parser.add_argument("--protocol", choices=sorted(_SESSIONS), default="http")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--control-port", type=int, default=0)
    parser.add_argument("--exit-with-stdin", action="store_true")
    options = parser.parse_args(arguments)
    if options.exit_with_stdin:
        end_with_parent()
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
