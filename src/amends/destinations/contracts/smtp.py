"""SMTP submission (RFC 5321). There is no idempotency key: a server that is given one message twice delivers two.

The border is the reply after the end of the data. With 2yz the server has taken responsibility, with 4yz
or 5yz it must not try to deliver; without a reply nobody knows. Before the end of the data nothing is sent.
"""

from typing import Final

from amends.core.contract import Contract, Lookup
from amends.destinations.contracts._citing import cited

_DATA = ("RFC 5321, 3.3 Mail Transactions", "https://www.rfc-editor.org/rfc/rfc5321#section-3.3")
_AFTER_DATA = ("RFC 5321, 4.2.5 Reply Codes after DATA", "https://www.rfc-editor.org/rfc/rfc5321#section-4.2.5")
_BOTH_REFUSALS = (
    "RFC errata 375: 4yz after the data forbids delivery as 5yz does",
    "https://www.rfc-editor.org/errata/eid375",
)

SUBMIT: Final = Contract(
    name="smtp.submit",
    lookup=Lookup.EVENTUAL,
    source=cited(_DATA, _AFTER_DATA, _BOTH_REFUSALS),
    note="Look up by the Message-ID, which follows from the key, in a mailbox that surely gets a copy (a journal, "
    "a Bcc of one's own). How long a server queues is not published: whoever knows declares lookup_lag_s, and "
    "late_arrival_bound_s if a mail that is not there may be sent again; without them a person is asked.",
)

ALL: Final = (SUBMIT,)
