"""A night, a repair and a backfill of a PostgreSQL pipeline."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.integration.nights import Nights
from tests.integration.postgres.recovered import MODES, ORDERS, ROW, writing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),  # a minute each on a quiet machine
    # kafka-python reads its own message schemas with a deprecated call
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
]


class TestNights(Nights):
    """Over Debezium's PostgreSQL connector."""

    SETTINGS = MODES
    ORDERS = ORDERS

    def orders(self, first: int, last: int) -> str:
        return f"INSERT INTO orders SELECT {ROW.format('i')} FROM generate_series({first}, {last}) i"

    def events(self, first: int, last: int) -> str:
        return f"INSERT INTO events SELECT i % 50, 'e' || i % 7 FROM generate_series({first}, {last}) i"

    def writing(self, followed: Any, *statements: str) -> AbstractContextManager[Any]:
        return writing(followed, *statements, pause=0.2)
