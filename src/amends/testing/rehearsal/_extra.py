"""One place that says which extra is missing.

The rehearsal servers need starlette, uvicorn, h11 and aiosmtpd, which a production install does not carry.
A bare `ModuleNotFoundError: starlette` would send a reader to the wrong package, so it is translated here.
"""

from importlib.util import find_spec

_NEEDED = ("starlette", "uvicorn", "h11", "aiosmtpd")


def require_demo_extra() -> None:
    """Raise an ImportError naming the extra when one of its packages cannot be found."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ImportError(
            f'the rehearsal destinations need {", ".join(missing)}, which are not installed: pip install "amends[demo]"'
        )
