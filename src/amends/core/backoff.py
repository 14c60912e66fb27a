"""Pauses between passes: doubling, bounded, and spread (case F13)."""

from amends.core.limits import BACKOFF_MS_MAX


def backoff_ms(n: int, *, first_ms: int, most_ms: int, jitter: float) -> int:
    """The pause after the ``n``-th pass (1, 2, …): doubling, then scaled by 0.5 to 1.0 with ``jitter``.

    ``jitter`` in [0, 1) comes from the caller, so the decision itself stays a function; the spread keeps
    a thousand operations that failed together from coming back together.
    """
    if not 0 <= jitter < 1:
        raise ValueError(f"jitter is {jitter!r}; it lies in [0, 1)")
    most = min(most_ms, BACKOFF_MS_MAX)
    delay = min(first_ms * (1 << min(max(n, 1) - 1, 30)), most)
    return max(1, int(delay * (0.5 + jitter / 2)))
