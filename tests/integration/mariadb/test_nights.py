"""A night, a repair and a backfill of a MariaDB pipeline."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar

import pytest

from tests.integration.mariadb.recovered import ORDERS, ROW
from tests.integration.nights import Nights
from tests.integration.recovering import writing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),  # a minute each on a quiet machine
    # kafka-python reads its own message schemas with a deprecated call
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
]


class TestNights(Nights):
    """Over Debezium's MariaDB connector."""

    SETTINGS: ClassVar[dict[str, str]] = {}
    ORDERS = ORDERS

    def orders(self, first: int, last: int) -> str:
        return f"INSERT INTO orders SELECT {ROW.format('seq')} FROM seq_{first}_to_{last}"

    def events(self, first: int, last: int) -> str:
        return f"INSERT INTO events SELECT seq % 50, CONCAT('e', seq % 7) FROM seq_{first}_to_{last}"

    def writing(self, followed: Any, *statements: str) -> AbstractContextManager[Any]:
        return writing(followed.server, followed.database, *statements, pause=0.2)
