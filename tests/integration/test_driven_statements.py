"""What happens to the tables of tests/e2e/test_driven_cases.py is what a server carries out: seen here in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.cases import PIECES, SCHEMA, Case
from tests.e2e.test_driven_cases import make, session

if TYPE_CHECKING:
    from stack.mysql import MySqlServer

MOMENTS = ("reading", "verifying", "after", "applying")


@pytest.mark.parametrize("cases", PIECES.values(), ids=PIECES)
def test_a_server_carries_out_what_happens_to_each_table(mysql: MySqlServer, cases: tuple[Case, ...]) -> None:
    try:
        make(cases, mysql)
        for moment in MOMENTS:
            for case in cases:
                session(mysql, case.at(moment))
        assert all(any(case.at(moment) for moment in MOMENTS) for case in cases)
        assert len({case.table for case in cases}) == len(cases)
    finally:
        mysql.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
