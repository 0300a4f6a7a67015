"""How a client checks a server's certificate, and shows its own."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from airflow_cdc.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Whom a client trusts, and who it is. The fields are named like those of the connections.

    Attributes:
        ca_file: PEM file of the authority that signed the server's certificate; "": the system's authorities.
        verify: whether the server's certificate is checked at all.
        cert_file: PEM file of a client certificate, and its key unless that is in `key_file`; "": none.
    """

    ca_file: str = ""
    verify: bool = True
    cert_file: str = ""
    key_file: str = ""
    key_password: str = field(default="", repr=False)

    def tls_context(self, where: str) -> ssl.SSLContext:
        """For connections to the server that messages call `where`. Raises ConfigError for files that cannot be read."""
        context = self._trusting(where)
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if self.cert_file:
            self._present(context, where)
        return context

    def _trusting(self, where: str) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.ca_file or None)
        except OSError:
            raise ConfigError(
                f"the CA file {self.ca_file} cannot be read", where=where, todo="Check ca_file of the connection."
            ) from None

    def _present(self, context: ssl.SSLContext, where: str) -> None:
        try:
            # without a password OpenSSL would ask for it at a terminal
            context.load_cert_chain(self.cert_file, self.key_file or None, self.key_password or "")
        except OSError as error:
            raise ConfigError(
                f"the client certificate cannot be used: {getattr(error, 'reason', '') or type(error).__name__}",
                where=f"{where}, {self.cert_file}",
                todo="Check cert_file, key_file and key_password of the connection: PEM files that belong together.",
            ) from None


def trusting_nobody() -> ssl.SSLContext:
    """For addresses without TLS: reading the system's authorities takes 20 ms, and a redirect to TLS isn't followed blindly."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
