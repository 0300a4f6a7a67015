"""TLS of a connection to MySQL or MariaDB, as PyMySQL wants it: as much as its settings ask for."""

from __future__ import annotations

import ssl as tls
from collections.abc import Mapping
from typing import Any

from airflow_cdc.sources.errors import SourceTlsError
from airflow_cdc.sources.tls import Mode, mode_of, settings_of


def client_options(ssl: Mapping[str, Any] | None, where: str) -> dict[str, Any]:
    """PyMySQL's options for these settings. Raises ConfigError, or SourceTlsError for files that cannot be read."""
    mode = mode_of(ssl, where)
    if mode is Mode.DISABLED:
        return {"ssl_disabled": True}
    return {} if mode is Mode.PREFERRED else {"ssl": _context(settings_of(ssl, where), mode, where)}


def unverified() -> tls.SSLContext:
    """A context that encrypts and trusts any certificate."""
    context = tls.SSLContext(tls.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = tls.CERT_NONE
    return context


def _context(given: Mapping[str, Any], mode: Mode, where: str) -> tls.SSLContext:
    try:
        context = tls.create_default_context(cafile=given.get("ca")) if mode.verifies else unverified()
        # certificates that MySQL generates itself lack extensions that the strict check requires
        context.verify_flags &= ~tls.VERIFY_X509_STRICT
        context.check_hostname = mode is Mode.VERIFY_IDENTITY
        context.verify_mode = tls.CERT_REQUIRED if mode.verifies else tls.CERT_NONE
        if "cert" in given:
            context.load_cert_chain(given["cert"], given.get("key"), given.get("key_password") or "")
    except (OSError, ValueError) as error:
        reason = type(error).__name__ if isinstance(error, tls.SSLError) else str(error)
        raise SourceTlsError(
            f"the TLS files cannot be read: {reason}", where=where, todo="Check ca, cert and key of the ssl settings."
        ) from None
    return context
