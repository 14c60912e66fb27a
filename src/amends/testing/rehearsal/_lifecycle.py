"""How a rehearsal process starts, announces itself and ends.

It binds the loopback address only, prints exactly one JSON line when it can be reached, ends with status 0 on
SIGTERM, and, when told to, ends by itself when its standard input closes. The last is how no server outlives a test
run that was killed: the pipe's write end dies with the parent. (PR_SET_PDEATHSIG would fire when the *thread* that
started the child ends, which a pool of starter threads makes a trap.)
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from typing import Final

HOST: Final = "127.0.0.1"
LISTEN_BACKLOG: Final = 128
ORPHAN_GRACE_MS: Final = 2_000
"""How long an orphan may take to end cleanly before it ends at once."""


def listen(port: int) -> socket.socket:
    """A listening loopback socket; port 0 asks for a free one."""
    bound = bind(port)
    bound.listen(LISTEN_BACKLOG)
    return bound


def bind(port: int) -> socket.socket:
    """A bound loopback socket that does not listen: it keeps the port, and connecting to it is refused."""
    # The protocol is named because asyncio turns TCP_NODELAY on only then; without it each answer waits 40 ms.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((HOST, port))
    bound.setblocking(False)
    return bound


def port_of(bound: socket.socket) -> int:
    """The port a socket is bound to."""
    return int(bound.getsockname()[1])


def announce(**facts: int | str) -> None:
    """Print the ready line."""
    sys.stdout.write(json.dumps({"ready": True, "pid": os.getpid(), **facts}) + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """End this process when standard input reaches its end."""
    threading.Thread(target=_watch_stdin, name="end-with-parent", daemon=True).start()


def _watch_stdin() -> None:
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_GRACE_MS / 1000)
    os._exit(1)
