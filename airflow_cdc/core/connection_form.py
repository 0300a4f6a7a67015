"""Declares a connection type's form in Airflow, by Airflow's airflow/provider_info.schema.json."""

from __future__ import annotations

# a value in a JSON schema: a type, a type's name, a list of allowed values, or a default
SchemaValue = str | int | list[str] | list[str | None] | None


def field(label: str, description: str = "", **schema: SchemaValue) -> dict[str, object]:
    """One form field; text unless `schema` says otherwise."""
    shown: dict[str, object] = {"label": label, "schema": {"type": ["string", "null"], **schema}}
    return {**shown, "description": description} if description else shown


# of an address that is reached by HTTPS
HTTPS = {
    "verify": field("Check the TLS certificate", type=["boolean", "null"], default=True),
    "ca_file": field("TLS: CA file", "Path; takes the place of the system's authorities"),
    "cert_file": field("TLS: client certificate", "Path"),
    "key_file": field("TLS: client key", "Path; if it is not in the certificate's file"),
    "key_password": field("TLS: password of the client key", format="password"),
}
