"""The report folder in an object store, opened with an Airflow connection: `s3://CONN_ID@bucket/reports`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow.sdk import BaseHook, Connection, ObjectStoragePath
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.reports.store import connection_of

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

SETTING: Final = "airflow.cfg [cdc] report_dir"
# A task's process is given a database URL that names no database, and so is the driver that it starts: `import airflow`
# fails there. This one is opened by nobody.
NO_DATABASE: Final = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite://"}


def opened(url: str) -> tuple[AbstractFileSystem, str]:
    """Fsspec's file system with the rights of the URL's connection, and the folder in it. Raises ConfigError."""
    parts = urlsplit(url)
    folder = f"{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
    if open_here := OWN.get(parts.scheme):
        return open_here(_connection(url)), folder
    try:
        return ObjectStoragePath(url).fs, folder
    except AirflowNotFoundException:
        raise _missing(url) from None
    except (ImportError, ValueError) as error:  # ValueError: no provider knows the scheme
        raise ConfigError(
            f"Airflow can't open {parts.scheme}:// with a connection: {error}",
            where=SETTING,
            todo="Install Airflow's provider for such a store, with its file system.",
        ) from error


def for_driver(url: str) -> dict[str, str]:
    """What a driver, which cannot ask Airflow, must find in its environment to open the URL. It holds a password."""
    name = connection_of(url)
    return {f"AIRFLOW_CONN_{name.upper()}": _connection(url).get_uri(), **NO_DATABASE} if name else {}


def _connection(url: str) -> Connection:
    try:
        return BaseHook.get_connection(connection_of(url))
    except AirflowNotFoundException:
        raise _missing(url) from None


def _missing(url: str) -> ConfigError:
    name = connection_of(url)
    return ConfigError(
        f"connection {name!r} is not defined",
        where=SETTING,
        todo=f"Create it: airflow connections add {name} …, or leave {name}@ out to use the machine's own rights.",
    )


def _s3(conn: Connection) -> AbstractFileSystem:
    """By Arrow, which every installation has: Airflow's own file system for S3 needs a provider and its client.

    The connection's fields are those of Airflow's type `aws`.
    """
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow.fs import S3FileSystem

    extra = conn.extra_dejson
    given = {
        "access_key": conn.login,
        "secret_key": conn.password,
        "session_token": extra.get("aws_session_token"),
        "role_arn": extra.get("role_arn"),
        "region": extra.get("region_name"),
        "endpoint_override": extra.get("endpoint_url"),
    }
    return ArrowFSWrapper(S3FileSystem(**{name: value for name, value in given.items() if value}))


OWN: Final[dict[str, Callable[[Connection], AbstractFileSystem]]] = {"s3": _s3}
