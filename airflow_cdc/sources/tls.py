"""How a connection to a database is protected: what its settings mean, and what of it the doctor says is not verified."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.setup import form_field

_KEYS: Final = frozenset({"mode", "ca", "cert", "key", "key_password"})
# a host that begins with / is a socket in a folder
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_VERIFY: Final = "Write ssl_ca (the authority's file) and ssl_mode verify_identity into the connection."


class Mode(StrEnum):
    """How a connection is protected. PREFERRED: encrypted where the server offers it."""

    DISABLED = "disabled"
    PREFERRED = "preferred"
    REQUIRED = "required"
    VERIFY_CA = "verify_ca"
    VERIFY_IDENTITY = "verify_identity"

    @property
    def verifies(self) -> bool:
        """Whether the server's certificate is checked."""
        return self in {Mode.VERIFY_CA, Mode.VERIFY_IDENTITY}


# what the form of a database's connection asks about it
TLS_FIELDS: Final[Mapping[str, object]] = {
    "ssl_mode": form_field(
        "TLS mode",
        "disabled, preferred, required, verify_ca or verify_identity",
        enum=["disabled", "preferred", "required", "verify_ca", "verify_identity", None],
        default="preferred",
    ),
    "ssl_ca": form_field("TLS: CA file", "Path of the authority's certificate"),
    "ssl_cert": form_field("TLS: client certificate", "Path"),
    "ssl_key": form_field("TLS: client key", "Path"),
    "ssl_key_password": form_field("TLS: password of the client key", format="password"),
}
# what is not verified, where something isn't
_UNVERIFIED: Final[Mapping[Mode, str]] = {
    Mode.PREFERRED: "nothing proves which server answers",
    Mode.REQUIRED: "nothing proves which server answers",
    Mode.VERIFY_CA: "its host name is not verified: any server with a certificate of that authority may answer",
}


def settings_of(ssl: Mapping[str, object] | None, where: str) -> dict[str, Any]:
    """The settings that are set. Raises ConfigError for an unknown one."""
    given = {key: value for key, value in (ssl or {}).items() if value not in (None, "")}
    if unknown := sorted(set(given) - _KEYS):
        raise ConfigError(
            f"unknown ssl setting {unknown[0]!r}", where=where, todo=f"Known: {', '.join(sorted(_KEYS))}."
        )
    return given


def mode_of(ssl: Mapping[str, object] | None, where: str) -> Mode:
    """The mode that the settings mean. Raises ConfigError.

    An authority that is named is used: without a mode the host name is verified, too, and with `preferred` (which the form
    of a connection fills in) or `required` the certificate is.
    """
    given = settings_of(ssl, where)
    default = Mode.VERIFY_IDENTITY if "ca" in given else Mode.REQUIRED if given else Mode.PREFERRED
    try:
        mode = Mode(str(given.get("mode") or default).lower().replace("-", "_"))
    except ValueError:
        raise ConfigError(
            f"unknown ssl mode {str(given['mode'])!r}", where=where, todo=f"Use one of {', '.join(Mode)}."
        ) from None
    return Mode.VERIFY_CA if "ca" in given and mode in {Mode.PREFERRED, Mode.REQUIRED} else mode


def tls_check(subject: str, host: str, mode: Mode, cipher: str) -> Check:
    """What protects the connection, and what of it is not verified. `cipher`: of the session; "" without TLS."""
    if not cipher:
        found, todo = (
            "no TLS: who is between can read the password and the rows",
            "Turn TLS on at the server. " + _VERIFY,
        )
    elif (missing := _UNVERIFIED.get(mode)) is not None:
        found, todo = f"TLS ({cipher}), but {missing}", _VERIFY
    else:
        return Check(subject, "tls", "ok", f"TLS ({cipher}), certificate and host name verified")
    if host in _HERE or host.startswith("/"):
        return Check(subject, "tls", "ok", f"{found.partition(':')[0]}; the server is on this machine")
    return Check(subject, "tls", "warn", found, todo)
