"""What the scenarios are, which faults befall them, and what must be right afterwards: fixed before any run.

Plain data, so that it can be listed without the packages that a run needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

TENANT: Final = "acme"
PRINCIPAL: Final = "agent:support"
COMPLETED, UNKNOWN = "completed", "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One effect of a scenario, and where it is counted.

    Args:
        action: the effect's name.
        destination: where it is made.
        kind: what the destination calls it, e.g. ``charges``.
        counted_by: the destination's own filter and its value, with ``{order}`` in it. It is not our key: a
            second effect under another key must be counted too.
    """

    action: str
    destination: str
    kind: str
    counted_by: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One business operation.

    Args:
        name, says: what it is called, and what it does.
        event: its business event, with ``{order}`` in it.
        first_order: the number of its first order; each run has one of its own.
        steps: its effects, in order. Faults befall the first one.
        path: where that one's request goes; its faults are aimed at it.
        late_repeats: in the fault ``late-response``, whether the late request arrives only after the repeat
            (the destination's key absorbs it) or before the second look (which finds what it did).
    """

    name: str
    says: str
    event: str
    first_order: int
    steps: tuple[Step, ...]
    path: str
    late_repeats: bool

    @property
    def destinations(self) -> tuple[str, ...]:
        """The destinations it needs, in order of use."""
        return tuple(step.destination for step in self.steps)

    def order(self, fault: str) -> str:
        """The order of the run with this fault."""
        return str(self.first_order + list(FAULTS).index(fault))

    def expected(self, fault: str) -> dict[str, int]:
        """How many effects there must be at each destination."""
        first = self.steps[0]
        blocked = FAULTS[fault].ending == UNKNOWN
        return {step.destination: int(step is first or not blocked) for step in self.steps}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong, and the ending that is right then."""

    says: str
    ending: str = COMPLETED


FAULTS: Final[Mapping[str, Fault]] = MappingProxyType(
    {
        "none": Fault(says="nothing goes wrong"),
        "kill-after-payment": Fault(
            says="the worker is killed (SIGKILL) after the payment service committed and before that is recorded"
        ),
        "lost-response": Fault(says="the payment service commits and its answer is lost on the way"),
        "late-response": Fault(says="the request is held up and takes effect long after the client gave up"),
        "duplicate-event": Fault(says="the event is delivered twice at once, to two workers, and once more later"),
        "lookup-lag": Fault(says="the answer is lost, and the payment service's list does not show the record yet"),
        "lookup-down": Fault(
            says="the answer is lost, and the payment service cannot be asked either: nobody can know", ending=UNKNOWN
        ),
        "expired-key": Fault(
            says="the worker is killed as above, and comes back after the payment service has forgotten the key"
        ),
    }
)
"""In the order in which ``all`` runs them; the last one takes a day of the rehearsal's clock."""

SCENARIOS: Final[Mapping[str, Scenario]] = MappingProxyType(
    {
        each.name: each
        for each in (
            Scenario(
                name="replacement-order",
                says="capture a payment, reserve stock, create a shipment, send a mail",
                event="order:{order}:replacement",
                first_order=18431,
                steps=(
                    Step(
                        action="capture_payment",
                        destination="payments",
                        kind="charges",
                        counted_by=("order", "{order}"),
                    ),
                    Step(
                        action="reserve_stock",
                        destination="warehouse",
                        kind="reservations",
                        counted_by=("sku", "A-{order}"),
                    ),
                    Step(
                        action="create_shipment",
                        destination="carrier",
                        kind="shipments",
                        counted_by=("order", "{order}"),
                    ),
                    Step(
                        action="send_mail",
                        destination="mail",
                        kind="messages",
                        counted_by=("subject", "Order {order}: your replacement is on its way"),
                    ),
                ),
                path="/v1/charges",
                late_repeats=False,
            ),
            Scenario(
                name="refund",
                says="refund a payment, note it at the customer, send a mail",
                event="ticket:{order}:refund",
                first_order=4711,
                steps=(
                    Step(
                        action="issue_refund", destination="payments", kind="refunds", counted_by=("order", "{order}")
                    ),
                    Step(
                        action="note_refund",
                        destination="crm",
                        kind="notes",
                        counted_by=("contact", "customer-{order}"),
                    ),
                    Step(
                        action="send_mail",
                        destination="mail",
                        kind="messages",
                        counted_by=("subject", "Order {order}: your refund is on its way"),
                    ),
                ),
                path="/v1/refunds",
                late_repeats=True,
            ),
        )
    }
)
"""The reference scenarios, by name."""
