"""Whether Canal writes to its source by itself, by its settings."""

from __future__ import annotations

import pytest

from airflow_cdc.connectors.canal.capture import DETECTING, DETECTING_SQL, RULES, interval_ms
from tests.unit.connectors.canal.settings import FOLLOWED

WRITES = {DETECTING: "true", DETECTING_SQL: "insert into retl.xdual values(1,now()) on duplicate key update x=now()"}


@pytest.mark.parametrize(
    ("more", "milliseconds"),
    [
        ({}, 0),
        (WRITES, 3000),
        ({**WRITES, "canal.instance.detecting.interval.time": "10"}, 10_000),
        ({**WRITES, DETECTING: "false"}, 0),
        ({**WRITES, DETECTING_SQL: " SELECT 1"}, 0),  # as in the file that Canal comes with
        ({**WRITES, DETECTING_SQL: "show status"}, 0),
        ({DETECTING: "true"}, 0),
    ],
)
def test_only_a_statement_that_writes_counts(more: dict[str, str], milliseconds: int) -> None:
    assert interval_ms({**FOLLOWED, **more}) == milliseconds
    (beats,) = RULES.capture({**FOLLOWED, **more}).reading_checks("shop")
    assert beats.found == (f"every {milliseconds} ms" if milliseconds else "none")
