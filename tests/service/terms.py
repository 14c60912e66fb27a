"""The contract and the retries that most tests of the service register their effects with."""

from amends.core.contract import Contract, Lookup, Mechanism
from amends.core.terms import Retry

FENCED = Contract(
    name="fenced",
    mechanism=Mechanism.IDEMPOTENCY_KEY,
    key_retention_s=3600,
    replays_success=True,
    lookup=Lookup.STRONG,
)
QUICK = Retry(attempts=3, first_delay_s=0.001, delay_s_max=0.01)
