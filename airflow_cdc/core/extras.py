"""Packages that only some systems need: which extra of this package brings them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from airflow_cdc.core.errors import ConfigError

PACKAGE: Final = "airflow-provider-cdc"
# module → extra. What the plain install brings stands here, too, with "": a broken installation is said as plainly.
EXTRAS: Final[Mapping[str, str]] = {
    "psycopg": "postgres",
    "pymysql": "",
    "kafka": "",
    "pyiceberg": "",
    "pyarrow": "",
    "pandas": "",
    "pyspark": "",
    "great_expectations": "",
}


def missing_package(error: ModuleNotFoundError, *, where: str) -> ConfigError:
    """The error to raise instead of `error`: what is not installed, and how it is."""
    module = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(module, "")
    wanted = f"{PACKAGE}[{extra}]" if extra else PACKAGE if module in EXTRAS else module
    return ConfigError(f"the package {module!r} is not installed", where=where, todo=f"Run: pip install '{wanted}'")


@contextmanager
def needed_by(where: str) -> Iterator[None]:
    """Imports within it that fail say in one line what to install. Raises ConfigError."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRAS:
            raise
        raise missing_package(error, where=where) from None
