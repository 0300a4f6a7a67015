"""Packages that only some systems need: a one-line error names the missing package and the extra that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from airflow_cdc.core.errors import ConfigError

PACKAGE: Final = "airflow-provider-cdc"
_OURS: Final = "airflow_cdc"


@contextmanager
def needs(extra: str, *, where: str = "") -> Iterator[None]:
    """A context for imports of packages that the extra `extra` installs ("": the plain install does).

    Raises ConfigError for a package that is not installed. A missing module of this package is a bug of ours and raises
    ModuleNotFoundError.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", _OURS):
            raise
        requirement = f"{PACKAGE}[{extra}]" if extra else PACKAGE
        raise ConfigError(
            f"the package {package!r} is not installed", where=where, todo=f"Run: pip install '{requirement}'"
        ) from None
