"""What real providers promise, endpoint by endpoint, each with its source.

Only what is published is claimed. A provider that does not say how long a read may lag has an eventual
lookup of unbounded lag, and one that does not say how long it keeps a key keeps it for no time at all:
then *absent* proves nothing and a person is asked. Whoever knows more declares it on top, with the
reason: ``CREATE_CHARGE.with_(late_arrival_bound_s=120, source="…")``. No provider publishes how late a
request that was sent may still take effect, so that is undeclared everywhere.
"""

from typing import Final

from amends.core.contract import Contract
from amends.destinations.contracts import aws, github, kubernetes, smtp, stripe

ALL: Final[tuple[Contract, ...]] = (*stripe.ALL, *github.ALL, *aws.ALL, *kubernetes.ALL, *smtp.ALL)
"""Every shipped contract."""


def named(name: str) -> Contract:
    """The contract of that name, e.g. ``stripe.v1.charges.create``.

    Raises:
        LookupError: there is none; the message lists those of the same provider.
    """
    for contract in ALL:
        if contract.name == name:
            return contract
    provider = name.partition(".")[0]
    known = [contract.name for contract in ALL if contract.name.startswith(f"{provider}.")]
    raise LookupError(f"no contract is named {name!r}; of {provider!r} there are {known or 'none'}")
