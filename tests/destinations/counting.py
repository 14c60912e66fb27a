"""A server in a thread that counts what arrives and then fails as told; for clients that block."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REFUSALS_ARE_JSON = b'{"error": {"message": "no", "type": "api_error"}}'


@dataclass
class Counting:
    """What arrived, and what is done next: ``drop`` or an answer of ``status`` with ``body`` and ``headers``."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    arrivals: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def header(self, name: str) -> list[str | None]:
        """The values of a header, one an arrival."""
        return [headers.get(name) for _, _, headers, _ in self.arrivals]


@contextmanager
def counting(**how: Any) -> Iterator[Counting]:
    """Serve until the block ends."""
    state = Counting(**how)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # so that "Expect: 100-continue" is answered

        def take(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.arrivals.append((self.command, self.path, headers, body))
            self.close_connection = True
            if state.drop:
                return
            self.send_response(state.status)
            for name, value in {"content-length": str(len(state.body)), "connection": "close", **state.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(state.body)

        do_GET = do_POST = do_PUT = do_DELETE = take

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.port = server.server_address[1]
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
