"""What a statement may have done to rows without a row event, and which table it was done to."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.core.ddl import Ddl, Effect, clauses, effect_of, read_ddl, worst


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t TRUNCATE PARTITION p0",
        "ALTER TABLE `shop`.`t` DROP PARTITION p1",
        "alter table t exchange partition p0 with table other",
        "ALTER TABLE t DROP COLUMN a, ADD COLUMN a INT",
        "ALTER TABLE t ADD COLUMN b INT, DROP a",
        "ALTER TABLE t RENAME TO t9",
        "ALTER TABLE t RENAME COLUMN a TO b",
        "RENAME TABLE _t_gho TO t",
        "TRUNCATE TABLE t",
        "DROP TABLE `shop`.`t`",
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b)",
        "ALTER TABLE t DISCARD TABLESPACE",
        "ALTER TABLE t COMMENT 'ADD INDEX, ' , DROP a",
        "something nobody knows",
        "",
    ],
)
def test_inv_13_statements_that_may_change_rows_in_silence(statement: str) -> None:
    assert effect_of(statement) is Effect.HIDDEN


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD COLUMN note VARCHAR(20)",
        "ALTER TABLE t ADD (z INT, zz DECIMAL(4, 2))",
        "ALTER TABLE t MODIFY b VARCHAR(20), ADD INDEX ib (b)",
        "ALTER TABLE t CHANGE b b VARCHAR(20)",
        "/* online */ ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4;",
    ],
)
def test_inv_13_statements_that_the_definition_shows(statement: str) -> None:
    assert effect_of(statement) is Effect.SHOWN


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD INDEX ib (a, b), ALGORITHM=INPLACE, LOCK=NONE",
        "ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (1000))",
        "ALTER TABLE t COMMENT 'DROP COLUMN a, really'",
        "ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (a) REFERENCES u (id), AUTO_INCREMENT = 7",
        "ALTER TABLE t ALTER COLUMN a SET DEFAULT 5",
        "CREATE UNIQUE INDEX ib ON t (b)",
        "ALTER TABLE t",
    ],
)
def test_statements_that_change_no_row(statement: str) -> None:
    assert effect_of(statement) is Effect.NONE


def test_clauses_are_split_outside_of_quotes_and_parentheses() -> None:
    text = r"ADD a ENUM('x,y', 'it''s', 'a\',b'), COMMENT \"c,d\", DROP `b,c`".replace('\\"', '"')
    assert list(clauses(text)) == [r"ADD a ENUM('x,y', 'it''s', 'a\',b')", 'COMMENT "c,d"', "DROP `b,c`"]


def record(ddl: str = "ALTER TABLE t DROP a", **changes: Any) -> dict[str, Any]:
    source = {"snapshot": "false", "table": "t", "file": "bin.000001", "pos": 5, "gtid": "u:7", "server_id": 1}
    body = {
        "source": source,
        "databaseName": "shop",
        "ddl": ddl,
        "tableChanges": [{"type": "ALTER", "id": '"shop"."t"'}],
    }
    return body | changes


def test_a_record_names_its_tables_with_or_without_the_schema_around_it() -> None:
    found = read_ddl({"schema": {}, "payload": record(source={"table": "_t_del,t"}, tableChanges=None)})
    assert found is not None
    assert found.tables == {"shop._t_del", "shop.t"}
    plain = read_ddl(record(tableChanges=[{"id": '"shop"."t9"', "previousId": '"shop"."t"'}]))
    assert plain is not None
    assert plain.tables == {"shop.t", "shop.t9"}


def test_inv_13_a_default_that_the_converter_leaves_out_is_no_snapshot() -> None:
    """With replace.null.with.default=false the field `snapshot`, whose default is "false", arrives as null."""
    found = read_ddl(record(source={"snapshot": None, "table": "t"}))
    assert found is not None
    assert found.tables == {"shop.t"}


def test_a_repeat_has_the_same_place_and_another_statement_has_not() -> None:
    first, again, other = read_ddl(record()), read_ddl(record()), read_ddl(record("ALTER TABLE t DROP b"))
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.at == again.at != other.at


@pytest.mark.parametrize(
    "changes",
    [
        {"source": {"snapshot": "true", "table": "t"}},
        {"position": {"snapshot": "INITIAL"}, "source": {"server": "p"}},
        {"ddl": None},
    ],
)
def test_what_a_snapshot_writes_changes_nothing(changes: dict[str, Any]) -> None:
    assert read_ddl(record(**changes)) is None


@pytest.mark.parametrize("broken", [{"source": 5}, {"tableChanges": [7]}, {"tableChanges": 7}, {"payload": []}])
def test_a_record_of_another_shape_is_an_error(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a schema change"):
        read_ddl(record(**broken))


def test_the_worst_and_latest_counts() -> None:
    made = [Ddl(frozenset({"s.t"}), text) for text in ("TRUNCATE t", "ALTER TABLE t ADD a INT", "DROP TABLE t")]
    assert worst(made) is made[2]
    assert worst(made[1:2]) is made[1]
    assert worst([]) is None
