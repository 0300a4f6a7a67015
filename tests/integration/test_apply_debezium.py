"""What a real connector sends, in the forms that its settings give, applied: the sink is the source, hash by hash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.every_type import create_sql, insert_sql
from tests.integration.followed import Followed
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from stack.connect import ConnectWorker

pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

TABLES = {
    "items": "CREATE TABLE items (a BIGINT, b SMALLINT, name VARCHAR(40), price DECIMAL(10,4) NOT NULL, PRIMARY KEY (a, b))",
    "names": "CREATE TABLE names (code VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT DEFAULT 5)",
    "odd `na'me\" x": "CREATE TABLE `odd ``na'me\" x` (`k ey` INT PRIMARY KEY, `it's` VARCHAR(20), `a\"b` INT, `c``d` INT)",
    "events": "CREATE TABLE events (at TIMESTAMP(3) NOT NULL, kind VARCHAR(20), payload JSON)",
}
FIRST = (
    "INSERT INTO items VALUES (1, 1, 'a', 1.5), (1, 2, 'b', -2), (2, 1, 'c', 3), (2, 2, NULL, 0)",
    "INSERT INTO names VALUES ('abc', 1), ('ünï 😀', NULL), ('x', 3)",
    "INSERT INTO `odd ``na'me\" x` VALUES (1, 'o''ne', 1, 2), (2, 'two', 3, 4)",
    "INSERT INTO events VALUES ('2026-01-01 00:00:00.001', 'k', '{\"b\": 1, \"a\": 2.5}'), ('2026-01-01', 'k', NULL), ('2026-01-01', 'k', NULL)",
)
SECOND = (
    "UPDATE items SET b = 9 WHERE a = 1 AND b = 2",  # a changed key: a delete and a create
    "DELETE FROM items WHERE a = 2 AND b = 1",
    "INSERT INTO items VALUES (2, 1, 'again', 7)",
    "UPDATE names SET code = 'ABC' WHERE code = 'abc'",  # the same key to MySQL, another to the sink
    "UPDATE names SET n = NULL WHERE code = 'x'",
    "UPDATE `odd ``na'me\" x` SET `it's` = '`' WHERE `k ey` = 1",
    "DELETE FROM `odd ``na'me\" x` WHERE `k ey` = 2",
    "DELETE FROM events WHERE payload IS NULL LIMIT 1",
    "UPDATE events SET kind = 'changed' WHERE payload IS NOT NULL",
)
FORMS: dict[str, dict[str, str]] = {
    "as_the_worker_has_it": {},
    "plain_and_routed": {
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "decimal.handling.mode": "string",
        "bigint.unsigned.handling.mode": "precise",
        "binary.handling.mode": "hex",
        "skipped.operations": "none",
        "transforms": "all",
        "transforms.all.type": "io.debezium.transforms.ByLogicalTableRouter",
        "transforms.all.topic.regex": r"([^.]+)\.([^.]+)\.(items|names)",
        "transforms.all.topic.replacement": "$1.together",
    },
}


# the other tests of this folder have connectors with the worker's converters
@pytest.fixture(params=[pytest.param("as_the_worker_has_it", marks=pytest.mark.slow), "plain_and_routed"])
def followed(
    request: pytest.FixtureRequest, rig: Rig, connect_worker: ConnectWorker, kafka: str, tmp_path: Path
) -> Iterator[Followed]:
    tables = {**TABLES, "every": create_sql(f"{rig.schema}.every")}
    made = Followed(rig, connect_worker, kafka, tmp_path, tables)
    made.follow(FORMS[request.param])
    made.stamp()
    yield made
    connect_worker.call("DELETE", f"/connectors/{made.base.pipeline.connector.name}")


def test_the_sink_is_the_source_after_each_batch(followed: Followed) -> None:
    followed.rig.run(*FIRST, *insert_sql(f"{followed.rig.schema}.every", real_days=True))
    done = followed.apply("run-1")
    assert all(result["published"] and not result["dead_letters"] for result in done.values())
    for table in (*TABLES, "every"):
        assert followed.differences(table) == ([], []), table
    followed.rig.run(*SECOND, "DELETE FROM every ORDER BY id LIMIT 2")
    done = followed.apply("run-2")
    assert sum(result["deletes"] for result in done.values()) == 7
    for table in (*TABLES, "every"):
        assert followed.differences(table) == ([], []), table
    assert len(followed.rig.spark.table(followed.sink("names")).where("n IS NULL").collect()) == 2


@pytest.mark.parametrize("followed", ["plain_and_routed"], indirect=True)
def test_truncate_and_a_column_added_under_way(followed: Followed) -> None:
    followed.rig.run(*FIRST)
    followed.apply("run-1")
    followed.rig.run(
        "INSERT INTO events VALUES ('2026-02-02', 'gone', NULL)",
        "TRUNCATE TABLE events",
        "INSERT INTO events VALUES ('2026-03-03', 'stays', '[1]')",
    )
    followed.rig.run("ALTER TABLE items ADD COLUMN note VARCHAR(20)", "INSERT INTO items VALUES (5, 5, 'e', 5, 'new')")
    done = followed.apply("run-2")
    assert done["events"]["truncates"] == 1
    assert done["items"]["added"] == ["note"]
    for table in ("items", "events"):
        assert followed.differences(table) == ([], []), table
