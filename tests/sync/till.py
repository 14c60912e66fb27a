"""A synchronous application over the rehearsed payment service: plain functions, no await anywhere.

``till.py LEDGER URL ORDER [POINT]`` charges the order once and prints how that went. With a number it is
interrupted by a real SIGINT at that crash point (0 counts them and interrupts nothing).
"""

import signal
import sys
import threading
from pathlib import Path

from amends.errors import AmendsError
from amends.service import points
from amends.service.registry import Effect
from amends.sync import Absent, Amends, Call, Found, Money, Receipt, Unsure, Verified

WITHIN_S = 20


def event(order: str) -> str:
    return f"ticket:{order}"


def receipt(made: dict[str, object]) -> Receipt:
    return Receipt(resource=str(made["id"]), state=str(made["status"]), correlation=made["metadata"]["key"])


def till(
    ledger: Path | str, url: str, *, timeout_s: float = 20.0, lookup_timeout_s: float = 10.0
) -> tuple[Amends, Effect]:
    app = Amends(ledger)
    payments = app.destination(
        "payments",
        base_url=url,
        idempotency_header="Idempotency-Key",
        key_retention_s=3600,
        lookup="strong",
        late_arrival_bound_s=0,
    )

    @app.effect(
        "charge",
        recovery="compensatable",
        target="order:{order}",
        owner="billing",
        destination=payments,
        execution_timeout_s=timeout_s,
        lookup_timeout_s=lookup_timeout_s,
    )
    def charge(call: Call, *, order: str, amount: Money) -> Receipt:
        body = {"order": order, "amount": amount.minor, "currency": "usd", "metadata": {"key": call.key}}
        return receipt(call.post("/v1/charges", body))

    @charge.lookup
    def find_charge(call: Call) -> Found | Absent | Unsure:
        page = call.get("/v1/charges", order=call.arguments["order"])
        if page["has_more"]:
            return Unsure("there are further pages")
        ours = [receipt(made) for made in page["data"] if made["metadata"].get("key") == call.key]
        return Found(*ours) if ours else Absent(complete=True)

    @charge.verify
    def charge_stands(call: Call, made: Receipt) -> Verified:
        return Verified(evidence={"status": call.get(f"/v1/charges/{made.resource}")["status"]})

    return app, charge


class Interrupting:
    """Sends SIGINT to this process at one crash point, and goes on only after the main thread was interrupted."""

    def __init__(self, at: int) -> None:
        self.reached = 0
        self._at = at
        self._interrupted = threading.Event()
        signal.signal(signal.SIGINT, self._interrupt)

    def __call__(self, _: str) -> None:
        self.reached += 1
        if self.reached == self._at:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            if not self._interrupted.wait(WITHIN_S):
                raise RuntimeError("the main thread was not interrupted")

    def _interrupt(self, *_: object) -> None:
        self._interrupted.set()
        raise KeyboardInterrupt


def main(ledger: str, url: str, order: str, at: str) -> str:
    points.hook = interrupting = Interrupting(int(at))
    app, charge = till(ledger, url, timeout_s=5.0, lookup_timeout_s=2.0)
    try:
        with app, app.run("sale", event=event(order)) as run:
            run.do(charge, order=order, amount=Money(8500, "USD"))
    except KeyboardInterrupt:
        return f"interrupted {interrupting.reached}"
    except AmendsError as error:
        return f"{error.code} {interrupting.reached}"
    return f"done {interrupting.reached}"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
