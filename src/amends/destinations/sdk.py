"""Around one request that a vendor's own client makes: its key, the budget check, and what its error means.

A vendor's client that retries by itself, or makes a key of its own, takes the decision away from the
ledger: the repeat happens where nobody records it. ``amends.destinations.stripe`` and ``.aws`` build
clients with that turned off, and translate what they raise. The vendors' packages are not dependencies of
Amends; they are imported when one of these functions is called.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from amends.core.failures import CallEnded, NotSent
from amends.core.identity import part_key
from amends.ports.destination import Sending, begin, never_left, read_failed, really_sent


def send_key(call: Sending) -> str:
    """The key of the request that ``call`` sends next.

    The first one carries the operation's key, each further one of the attempt a key of its own that
    follows from the order of sending.

    Raises:
        IdentityError: it is a further one, and ``call.key`` is not one of ours.
    """
    earlier = len(really_sent(call.sends))
    return call.key if earlier == 0 else part_key(call.key, f"send {earlier + 1}")


@contextmanager
def sending(
    call: Sending,
    what: str,
    *,
    errors: type[Exception] | tuple[type[Exception], ...],
    classify: Callable[[Exception], CallEnded],
) -> Iterator[str]:
    """Check the budget, remember ``what`` is sent, give the key, and translate ``errors``.

    Raises:
        NotSent: the budget is spent, or nothing left. Rejected: refused, surely. Ambiguous: nobody knows.
    """
    key = send_key(call)
    at = begin(call, what)
    try:
        yield key
    except NotSent:
        never_left(call, what, at)
        raise
    except errors as error:
        end = classify(error)
        if isinstance(end, NotSent):
            never_left(call, what, at)
        raise end from error


@contextmanager
def reading(
    call: Sending,
    *,
    errors: type[Exception] | tuple[type[Exception], ...],
    classify: Callable[[Exception], CallEnded],
) -> Iterator[None]:
    """The same around a request that changes nothing: it takes no key, and only its failure is remembered.

    Raises:
        NotSent, Rejected, Ambiguous: as ``sending``; a lookup that raises one could not tell.
    """
    try:
        call.check_budget()
        yield
    except CallEnded:
        read_failed(call, "by a vendor's client")
        raise
    except errors as error:
        read_failed(call, "by a vendor's client")
        raise classify(error) from error
