"""References to secrets: what an argument carries instead of the value (R15)."""

import re
from dataclasses import dataclass
from typing import Final

_REFERENCE: Final = re.compile(r"[a-z][a-z0-9+.-]{0,31}:[!-~]{1,256}")


@dataclass(frozen=True, slots=True)
class Secret:
    """A reference such as ``env:CRM_TOKEN`` or ``file:/run/secrets/crm``; the value is read when it is used.

    Only the reference is recorded and hashed. ``call.reveal(secret)`` gives the value.

    Raises:
        ValueError: it has no ``store:name`` form, or more than 256 characters.
    """

    reference: str

    def __post_init__(self) -> None:
        if not _REFERENCE.fullmatch(self.reference):
            raise ValueError("a secret is named store:name, e.g. env:CRM_TOKEN; the value itself does not belong here")
