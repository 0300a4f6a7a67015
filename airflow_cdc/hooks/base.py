"""What all hooks share: finding a connection, and one clear error if there is no suitable one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_cdc.core.errors import CdcError, ConfigError

E = TypeVar("E")


class CdcHook(BaseHook, Generic[E]):
    """Base of this provider's hooks: a subclass declares its connection type and builds its endpoint.

    Attributes:
        conn_type: the connection type that this provider defines.
        accepts: further connection types with the same facts (`mysql`, `kafka`, …).
        example: arguments of `airflow connections add ID …` that make a working connection.
    """

    conn_name_attr: ClassVar[str] = "conn_id"
    default_conn_name: ClassVar[str] = ""
    conn_type: ClassVar[str] = ""
    hook_name: ClassVar[str] = ""
    accepts: ClassVar[frozenset[str]] = frozenset()
    example: ClassVar[str] = ""

    def __init__(self, conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id or self.default_conn_name

    @property
    def where(self) -> str:
        """How errors name this connection."""
        return f"connection {self.conn_id}"

    @abstractmethod
    def endpoint_of(self, conn: Connection) -> E:
        """The address and credentials that `conn` describes. Raises ConfigError."""

    def endpoint(self) -> E:
        """The address and credentials of this hook's connection. Raises ConfigError."""
        return self.endpoint_of(self.connection())

    async def aendpoint(self) -> E:
        """The endpoint, read in a trigger's event loop."""
        return self.endpoint_of(await self.aconnection())

    def connection(self) -> Connection:
        """The connection. Raises ConfigError when it is missing or of another type."""
        try:
            conn = self.get_connection(self.conn_id)
        except AirflowNotFoundException:
            raise self.missing() from None
        return self.checked(conn)

    async def aconnection(self) -> Connection:
        """`connection` for a trigger's event loop, which a blocking call could deadlock."""
        try:
            conn = await self.aget_connection(self.conn_id)
        except AirflowNotFoundException:
            raise self.missing() from None
        return self.checked(conn)

    def missing(self) -> ConfigError:
        """The error about a connection that is not defined: with the command that creates it, ready to paste."""
        return ConfigError(
            f"connection {self.conn_id!r} is not defined",
            where=f"needed as {self.hook_name}",
            todo=f"Create it: airflow connections add {self.conn_id} --conn-type {self.conn_type} {self.example}",
        )

    def checked(self, conn: Connection) -> Connection:
        """`conn`, if this hook can read its type. Raises ConfigError."""
        allowed = {self.conn_type, *self.accepts}
        if conn.conn_type not in allowed:
            raise ConfigError(
                f"connection {self.conn_id!r} is of type {conn.conn_type!r}",
                where=f"needed as {self.hook_name}",
                todo=f"Change its type to {' or '.join(sorted(allowed))}.",
            )
        return conn

    def required(self, value: str | None, field: str) -> str:
        """`value`, or a ConfigError that names the empty field."""
        if not value:
            raise ConfigError(f"{field} is empty", where=self.where, todo=f"Fill in {field}, e.g. {self.example}")
        return value

    def seconds(self, extra: Mapping[str, object], key: str, default: int) -> int:
        """A positive number of seconds from the extra field `key`. Raises ConfigError."""
        value = extra.get(key)
        if value in (None, ""):
            return default
        try:
            seconds = int(str(value))
        except ValueError:
            seconds = 0
        if seconds <= 0:
            raise ConfigError(
                f"{key} is {value!r}", where=self.where, todo=f"Write a positive number of seconds, e.g. {default}."
            )
        return seconds

    def tested(self, probe: str) -> tuple[bool, str]:
        """Call `probe` of the client and return the one-line result that the form's Test button shows."""
        try:
            client = self.get_conn()
            getattr(client, probe)()
        except CdcError as error:
            return False, str(error)
        return True, f"{self.hook_name}: connection works"


def flag(extra: Mapping[str, object], key: str, *, default: bool) -> bool:
    """A boolean from an extra field that a form wrote as text or as JSON."""
    value = extra.get(key)
    if value in (None, ""):
        return default
    return str(value).strip().lower() in {"1", "true", "yes", "on"}


def tls_settings(extra: Mapping[str, object]) -> dict[str, Any]:
    """The fields of core.tls.TlsSettings, from extra fields of the same names."""
    named = {key: str(extra.get(key) or "") for key in ("ca_file", "cert_file", "key_file", "key_password")}
    return {"verify": flag(extra, "verify", default=True), **named}
