"""A MariaDB pipeline recovered whole: its log was purged, rows come, change and go meanwhile, and the mirror is equal."""

from __future__ import annotations

import pytest

from tests.integration.mariadb.recovered import EVENTS, ORDERS, ROW, Followed
from tests.integration.recovering import writing

pytestmark = [
    pytest.mark.slow,  # its server comes from Debian's packages, which not every machine can fetch
    # kafka-python reads its own message schemas with a deprecated call
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
]

PURGED = "Could not find GTID state requested by slave in any binlog files"


def equal(followed: Followed) -> None:
    assert followed.differences("orders", ORDERS) == ([], [])
    assert followed.differences("events", EVENTS) == ([], [])


def test_a_pipeline_whose_log_was_purged_is_recovered_while_its_source_is_written(followed: Followed) -> None:
    followed.follow({})
    followed.execute(
        f"INSERT INTO orders SELECT {ROW.format('seq')} FROM seq_1_to_300",
        "INSERT INTO events SELECT seq % 50, CONCAT('e', seq % 7) FROM seq_1_to_500",
        "UPDATE orders SET v = 'changed' WHERE id <= 5",
    )
    first = followed.apply("apply-1")
    assert {table["dead_letters"] for table in first.values()} == {0}
    equal(followed)

    followed.connector.stop(followed.database)
    followed.execute(
        "DELETE FROM orders WHERE id BETWEEN 100 AND 149",
        "UPDATE orders SET total = -1, day = NULL WHERE id BETWEEN 150 AND 160",
        f"INSERT INTO orders SELECT {ROW.format('seq')} FROM seq_1001_to_1050",
        "DELETE FROM events WHERE n < 10",
        "INSERT INTO events VALUES (7, 'copied'), (7, 'copied'), (NULL, NULL)",
    )
    followed.purge()
    followed.connector.resume(followed.database)
    assert PURGED in followed.failure()

    row = ROW.format("({n} + 5000)")
    with writing(
        followed.server,
        followed.database,
        f"INSERT INTO orders SELECT {row}",
        "UPDATE orders SET v = 'w{n}' WHERE id = 200 + {n} % 50",
        "DELETE FROM orders WHERE id = 5000 + {n} - 20",
        "INSERT INTO events VALUES ({n}, 'live'), ({n}, 'live')",
        "DELETE FROM events WHERE n = {n} - 30 AND t = 'live'",
    ):
        done = followed.recover("rec-1")
    assert done["decision"]["diagnosis"]["code"] == "GTID_PURGED"
    assert done["verify"]["verdict"] == "MATCH"
    followed.execute(
        "UPDATE orders SET total = total + 1 WHERE id < 50",
        "DELETE FROM events WHERE t = 'copied' LIMIT 1",
    )
    followed.apply("apply-2")
    equal(followed)
    assert followed.execute("SELECT COUNT(*) FROM events WHERE t = 'copied'") == [(1,)]
