"""Every bound the core enforces, with its unit and the reason for its size."""

from typing import Final

RUN_OPERATIONS_MAX: Final = 1_000
"""Operations in one run: a run is one business operation, and its state is folded as a whole."""

ATTEMPTS_MAX: Final = 100
"""The most attempts a registration may allow; a call that kills its process must not loop for ever."""

LOOKUPS_MAX: Final = 1_000
"""The most reconciliation passes a registration may allow."""

REVISIONS_MAX: Final = 20
"""Linked revisions of one refused operation: more is a loop, not a correction."""

REASON_CHARS_MAX: Final = 500
"""A reason is a sentence for a person."""

RESPONSE_BYTES_MAX: Final = 256 * 1024
"""A receipt's stored form: it is read by people and compared by machines, a document is neither."""

BACKOFF_MS_MAX: Final = 15 * 60 * 1000
"""The longest pause between two passes; a lookup that fails all night is still asked every quarter hour."""

VALUE_CHARS_MAX: Final = 2_000
"""One value of a receipt, an id above all: the longest known ids are URLs, and servers refuse longer ones."""
