"""A destination in a process of its own: charges in SQLite, one per idempotency key, searched by key.

``till.py FILE`` prints its port and serves until its standard input closes.
"""

import json
import os
import sqlite3
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

FILE = sys.argv[1]


def store() -> sqlite3.Connection:
    connection = sqlite3.connect(FILE, isolation_level=None, timeout=30)
    connection.execute("CREATE TABLE IF NOT EXISTS charges(id INTEGER PRIMARY KEY, key TEXT UNIQUE, amount INTEGER)")
    return connection


class Till(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Idempotency-Key"]
        connection = store()
        connection.execute("INSERT OR IGNORE INTO charges(key, amount) VALUES (?, ?)", (key, body["amount"]))
        row = connection.execute("SELECT id, amount FROM charges WHERE key = ?", (key,)).fetchone()
        connection.close()
        if body.get("lose"):
            self.connection.close()
            return
        self.answer({"id": f"ch_{row[0]}", "amount": row[1], "key": key})

    def do_GET(self) -> None:
        key = parse_qs(urlparse(self.path).query)["key"][0]
        connection = store()
        rows = connection.execute("SELECT id, amount FROM charges WHERE key = ?", (key,)).fetchall()
        connection.close()
        self.answer([{"id": f"ch_{row[0]}", "amount": row[1], "key": key} for row in rows])

    def answer(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


store().close()
server = ThreadingHTTPServer(("127.0.0.1", 0), Till)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
print(server.server_address[1], flush=True)
server.serve_forever()
