"""A destination in a process of its own that counts: every arrival, and every charge that was made.

``counter.py FILE`` prints its port and serves until its standard input closes. With an ``Idempotency-Key``
a charge is made once per key; without one each arrival makes one. Lookups search by the reference in the
body, which the destination keeps as it came.
"""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlparse

WITHIN_S = 60

TABLES = """
CREATE TABLE IF NOT EXISTS arrivals (id INTEGER PRIMARY KEY, reference TEXT);
CREATE TABLE IF NOT EXISTS charges (id INTEGER PRIMARY KEY, reference TEXT, amount INTEGER, key TEXT UNIQUE);
"""


Row = tuple[int, str, int, str | None]


class Store(NamedTuple):
    """The destination's own store, as a test reads it."""

    file: Path
    port: int

    def charges(self) -> Counter[str]:
        """How many charges there are under each reference."""
        return self._count("SELECT reference, COUNT(*) FROM charges GROUP BY reference")

    def arrivals(self) -> Counter[str]:
        """How many requests to charge came in under each reference."""
        return self._count("SELECT reference, COUNT(*) FROM arrivals GROUP BY reference")

    def rows(self) -> list[Row]:
        """Every charge, to ``put`` back later."""
        with closing(_store(self.file)) as db:
            return db.execute("SELECT id, reference, amount, key FROM charges").fetchall()

    def put(self, rows: list[Row]) -> None:
        """Have made these charges, and no others; nothing arrived."""
        self.forget()
        with closing(_store(self.file)) as db:
            db.executemany("INSERT INTO charges (id, reference, amount, key) VALUES (?, ?, ?, ?)", rows)

    def forget(self) -> None:
        """Empty the store."""
        with closing(_store(self.file)) as db:
            db.execute("DELETE FROM arrivals")
            db.execute("DELETE FROM charges")

    def _count(self, query: str) -> Counter[str]:
        with closing(_store(self.file)) as db:
            return Counter(dict(db.execute(query).fetchall()))


@contextmanager
def serving(file: Path) -> Iterator[Store]:
    """A counter in its own process, with its store in ``file``."""
    command = [sys.executable, str(Path(__file__)), str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Store(file, int(process.stdout.readline()))
        process.stdin.close()
        process.wait(WITHIN_S)


def _store(file: Path) -> sqlite3.Connection:
    db = sqlite3.connect(file, isolation_level=None, timeout=WITHIN_S)
    db.execute("PRAGMA synchronous = OFF")
    return db


class Handler(BaseHTTPRequestHandler):
    """``POST /charges`` and ``GET /charges?reference=``."""

    file: Path

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        values = (body["reference"], body["amount"], self.headers["Idempotency-Key"])
        with closing(_store(self.file)) as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO arrivals (reference) VALUES (?)", values[:1])
            made = db.execute("INSERT OR IGNORE INTO charges (reference, amount, key) VALUES (?, ?, ?)", values)
            query = "SELECT id, reference, amount FROM charges WHERE id = ? OR key = ?"
            row = db.execute(query, (made.lastrowid if made.rowcount else None, values[2])).fetchone()
            db.execute("COMMIT")
        self._answer(_charge(row))

    def do_GET(self) -> None:
        reference = parse_qs(urlparse(self.path).query)["reference"][0]
        with closing(_store(self.file)) as db:
            query = "SELECT id, reference, amount FROM charges WHERE reference = ?"
            self._answer([_charge(row) for row in db.execute(query, (reference,)).fetchall()])

    def _answer(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def _charge(row: tuple[int, str, int]) -> dict[str, object]:
    return {"id": f"ch_{row[0]}", "reference": row[1], "amount": row[2]}


def main() -> None:
    Handler.file = Path(sys.argv[1])
    with closing(_store(Handler.file)) as db:
        db.executescript(TABLES)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
