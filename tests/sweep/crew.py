"""The program under the durability tests: several runs at once, several charges in each.

Appends of the runs meet in one commit, so a fault in it hits more than one operation. It prints ``TOLD key``
for each receipt that the program was given, ``FAILED name message`` for each run that raised, and
``ENDED ending`` for the others; it returns 0 when every run completed.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
from collections import Counter
from pathlib import Path

from amends.bootstrap import Amends
from amends.core.contract import Contract, Lookup, Mechanism
from amends.core.evidence import Absent, Found, Observation, Receipt
from amends.core.failures import Ambiguous
from amends.core.money import Money
from amends.core.terms import Retry
from amends.destinations.http import HttpDestination
from amends.errors import AmendsError
from amends.ledger import points as ledger_points
from amends.ledger import writer
from amends.ledger.sqlite import SqliteLedger
from amends.service import points
from amends.service.call import Call
from amends.service.registry import Effect


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("ledger", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--charges", type=int, default=2)
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of one attempt")
    parser.add_argument("--attempts", type=int, default=4, help="claims of one operation in all")
    parser.add_argument("--unfenced", action="store_true", help="no key, and no bound on late arrival")
    parser.add_argument("--plain", action="store_true", help="a client that blocks: nothing between check and send")
    parser.add_argument("--stop-at", default="", help="NAME:N stops the process at the N-th time at this point")
    parser.add_argument("--slow-disk", action="store_true", help="no commit by the loop: the writer's thread does all")
    parser.add_argument("--checkpoint", type=int, default=1000, help="pages in the log after which it is moved")
    parser.add_argument("--synchronous", default="FULL", help="the negative controls: OFF or NORMAL")
    return parser.parse_args()


def stop_at(where: str) -> None:
    """Let the process stop itself (SIGSTOP) at the named point."""
    name, _, number = where.rpartition(":")
    passed: Counter[str] = Counter()

    def reached(point: str) -> None:
        passed[point] += 1
        if point == name and passed[point] == int(number):
            os.kill(os.getpid(), signal.SIGSTOP)

    points.hook = ledger_points.hook = reached


def contract(*, unfenced: bool) -> Contract:
    if unfenced:
        return Contract(name="counter", lookup=Lookup.STRONG)
    return Contract(
        name="counter",
        mechanism=Mechanism.IDEMPOTENCY_KEY,
        idempotency_header="Idempotency-Key",
        key_retention_s=3600,
        replays_success=True,
        lookup=Lookup.STRONG,
        late_arrival_bound_s=60,
    )


def wired(options: argparse.Namespace) -> tuple[Amends, Effect]:
    promised = contract(unfenced=options.unfenced)
    counter = HttpDestination(f"http://127.0.0.1:{options.port}", promised)
    app = Amends(options.ledger)

    @app.effect(
        "charge",
        recovery="compensatable",
        target="order:{order}",
        owner="finance",
        destination=promised,
        execution_timeout_s=options.budget,
        amount="amount",
        retry=Retry(attempts=options.attempts, first_delay_s=0.01),
    )
    async def charge(call: Call, *, order: str, amount: Money) -> Receipt:
        body = {"reference": call.key, "amount": amount.minor}
        if options.plain:
            return receipt(post(call, options.port, body, key="" if options.unfenced else call.key))
        return receipt(await counter.post(call, "/charges", body))

    @charge.lookup
    async def find_charge(call: Call) -> Observation:
        made = await counter.get(call, "/charges", reference=call.key)
        return Found(*map(receipt, made)) if made else Absent(complete=True)

    return app, charge


def post(call: Call, port: int, body: dict[str, object], *, key: str) -> dict[str, object]:
    """Send without giving the loop a turn: once the check has passed, only the destination can stop it."""
    data = json.dumps(body).encode()
    head = f"POST /charges HTTP/1.0\r\nContent-Length: {len(data)}\r\n" + (f"Idempotency-Key: {key}\r\n" if key else "")
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as connection:
        call.about_to_send("POST /charges")
        connection.sendall(head.encode() + b"\r\n" + data)
        said = connection.makefile("rb").read()
    if not said.startswith(b"HTTP/1.0 200"):
        raise Ambiguous("the counter did not answer 200")
    made: dict[str, object] = json.loads(said.partition(b"\r\n\r\n")[2])
    return made


def receipt(made: dict[str, object]) -> Receipt:
    amount = Money(int(str(made["amount"])), "USD")
    return Receipt(resource=str(made["id"]), amount=amount, correlation=str(made["reference"]))


def say(*words: object) -> None:
    """One write of one line, so that a record of system calls has it whole and in its place."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def one_run(app: Amends, charge: Effect, number: int, charges: int) -> bool:
    try:
        async with app.run("crew", event=f"order:{number}") as run:
            for n in range(charges):
                made = await run.do(charge, order=f"{number}-{n}", amount=Money(100 + n, "USD"))
                say("TOLD", made.correlation)
    except AmendsError as error:
        say("FAILED", type(error).__name__, error)
        return False
    say("ENDED", run.outcome())
    return run.outcome() == "completed"


def set_up(app: Amends, options: argparse.Namespace) -> None:
    db = app.ledger._connection
    assert db is not None
    db.execute(f"PRAGMA wal_autocheckpoint = {options.checkpoint:d}").fetchall()
    if options.synchronous == "NORMAL":
        db.execute("PRAGMA synchronous = NORMAL")


async def main(options: argparse.Namespace) -> bool:
    if options.stop_at:
        stop_at(options.stop_at)
    if options.slow_disk:
        writer.SLOW_NS = -1  # type: ignore[misc]
    if options.synchronous == "OFF":
        SqliteLedger._SYNCHRONOUS = "OFF"
    app, charge = wired(options)
    try:
        async with app:
            set_up(app, options)
            runs = (one_run(app, charge, number, options.charges) for number in range(options.runs))
            return all(await asyncio.gather(*runs))
    except AmendsError as error:
        say("FAILED", type(error).__name__, error)
        return False


if __name__ == "__main__":
    raise SystemExit(0 if asyncio.run(main(arguments())) else 1)
