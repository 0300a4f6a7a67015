"""Packages that only some systems need: what is not installed is said in one line, with the extra that brings it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from airflow_cdc.core.errors import ConfigError

PACKAGE: Final = "airflow-provider-cdc"
_OURS: Final = "airflow_cdc"


@contextmanager
def needs(extra: str, *, where: str = "") -> Iterator[None]:
    """Around an import that only the extra `extra` of this package makes possible ("": the plain install does).

    Raises ConfigError for a package that is not installed; a module of this package that is missing is a fault of ours,
    and raises ModuleNotFoundError.
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
