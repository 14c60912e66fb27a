"""The test's own calls to the control ports: JSON over loopback, one connection per call.

The standard library is enough, and a connection per call is safe in forked workers.
"""

import http.client
import json
from typing import Any, Final
from urllib.parse import urlencode

CALL_WAIT_MS: Final = 35_000
"""Longer than the servers' own longest wait, so that the server's answer is what a test sees."""

HOST: Final = "127.0.0.1"


class ControlRefusedError(RuntimeError):
    """A control port refused what it was told; the message is its reason."""


def call(port: int, method: str, path: str, body: object = None, query: dict[str, str] | None = None) -> Any:
    """Send one control request and return the parsed answer.

    Raises:
        ControlRefusedError: the status was not 200.
        OSError: the port cannot be reached.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=CALL_WAIT_MS / 1000)
    target = f"{path}?{urlencode(query)}" if query else path
    try:
        payload = None if body is None else json.dumps(body).encode()
        connection.request(method, target, payload, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
    finally:
        connection.close()
    if response.status != 200:
        raise ControlRefusedError(f"{method} {target} on port {port}: {response.status} {answer!r}")
    return answer
