"""OAuth 2.0 by client credentials: what is asked of a token server, and what its answer means (RFC 6749, 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

# a token is renewed this long before it ends, and kept for as long if its server does not say when that is
EARLY_S: Final = 30.0
KEPT_S: Final = 300.0


class Issued(NamedTuple):
    """A token ("": none was issued) and for how many seconds it is used."""

    token: str
    seconds: float


def asked(scope: str) -> dict[str, str]:
    """The form that is posted, beside the client's id and secret."""
    return {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}


def issued(answer: object) -> Issued:
    """What a successful answer, read from JSON, gave."""
    if not isinstance(answer, Mapping):
        return Issued("", 0.0)
    try:
        seconds = float(answer.get("expires_in") or KEPT_S)
    except (ValueError, TypeError, OverflowError):
        seconds = KEPT_S
    return Issued(str(answer.get("access_token") or ""), max(0.0, seconds - EARLY_S))
