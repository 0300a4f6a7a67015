"""Where a control database is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from airflow_cdc.core.endpoint import CallLimits


@dataclass(frozen=True, slots=True)
class SqlEndpoint:
    """A database that SQLAlchemy reaches.

    Attributes:
        driver: dialect and driver as in an SQLAlchemy URL: "sqlite", "postgresql+psycopg", "mysql+pymysql".
        database: its name, or the file of a SQLite database.
        options: further parameters of the driver, such as sslmode or the connection timeout.
        extra: the extra of this package that installs the driver; "" if the plain install does.
    """

    driver: str
    database: str
    host: str = ""
    port: int | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # sslpassword may be among them
    extra: str = ""

    def limited(self, _: CallLimits) -> Self:
        """Returns itself: `options` hold the timeouts of calls."""
        return self

    @property
    def where(self) -> str:
        """How messages name the database."""
        if not self.host:
            return f"database {Path(self.database).name}"
        port = f":{self.port}" if self.port else ""
        return f"database {self.database} at {self.host}{port}"
