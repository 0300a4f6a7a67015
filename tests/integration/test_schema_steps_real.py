"""DDL between two applies on a real server: carried where that is certain, else the table is read again by itself.

INV 13, 20 and 30.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_cdc.core.errors import CdcError, SchemaError
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.flows.observe import observe
from airflow_cdc.spark_apps.stages import reread
from stack.process import wait_until
from tests.diagnosing import diagnose
from tests.integration.followed import Followed
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from stack.connect import ConnectWorker

pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

PLAIN = "(id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9))"
PARTS = f"{PLAIN} PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (1000))"

# table → its definition, the statements between two applies, and what the refusal names
REREAD: dict[str, tuple[str, list[str], str]] = {
    "django": (
        PLAIN,
        ["ALTER TABLE django ADD s VARCHAR(10) DEFAULT 'new' NULL", "ALTER TABLE django ALTER COLUMN s DROP DEFAULT"],
        "s was added with a default",
    ),
    "seven": (
        PLAIN,
        ["ALTER TABLE seven ADD c INT NOT NULL DEFAULT 7", "ALTER TABLE seven MODIFY c INT NULL"],
        "c was NOT NULL and then nullable again",
    ),
    "digits": (
        "(id INT PRIMARY KEY, a VARCHAR(9), b DECIMAL(10,2) DEFAULT 1.25)",
        ["ALTER TABLE digits MODIFY b DECIMAL(10,0)", "ALTER TABLE digits MODIFY b DECIMAL(12,2)"],
        "not a lossless widening",
    ),
    "swapped": (
        PLAIN,
        [f"ALTER TABLE swapped CHANGE {one} VARCHAR(9)" for one in ("a tmp", "b a", "tmp b")],
        "CHANGE a tmp",
    ),
    "nick": (PLAIN, ["ALTER TABLE nick CHANGE b b_old VARCHAR(9), ADD b VARCHAR(9)"], "CHANGE b b_old"),
    "texts": (
        PLAIN,
        [
            "ALTER TABLE texts ADD c VARCHAR(30) DEFAULT 'NULL', ADD d VARCHAR(30) DEFAULT 'CURRENT_TIMESTAMP (x)'",
            "ALTER TABLE texts ALTER c DROP DEFAULT, ALTER d DROP DEFAULT",
        ],
        "c was added with a default",
    ),
    "hole": (PLAIN, ["ALTER TABLE hole COMMENT='x' ENGINE=BLACKHOLE", "ALTER TABLE hole ENGINE=InnoDB"], "BLACKHOLE"),
    "parts": (PARTS, [], "EXCHANGE PARTITION"),
    "part_in": (PLAIN, ["ALTER TABLE parts EXCHANGE PARTITION p0 WITH TABLE part_in"], "EXCHANGE PARTITION"),
    "longer": (PLAIN, ["TRUNCATE TABLE longer", "ALTER TABLE longer ADD COLUMN c INT"], "was truncated or rebuilt"),
    "größe": (PLAIN, ["TRUNCATE TABLE `größe`"], "was truncated or rebuilt"),
    "nowhere": ("(a VARCHAR(9), b VARCHAR(9), id INT)", ["ALTER TABLE nowhere ADD c INT NOT NULL DEFAULT 7"], "c was"),
}
CARRIED: dict[str, tuple[str, list[str]]] = {
    "dropped": (PLAIN, ["ALTER TABLE dropped DROP COLUMN a", "INSERT INTO dropped VALUES (8, 'after')"]),
    "filled": (
        PLAIN,
        [
            "ALTER TABLE filled ADD c VARCHAR(9) DEFAULT 'it''s' NOT NULL, ADD d DECIMAL(6,2) NOT NULL DEFAULT 1.5 FIRST",
            "ALTER TABLE filled ALTER c DROP DEFAULT, ADD e INT UNSIGNED NOT NULL",
            "INSERT INTO filled (id, c, d, e) VALUES (8, 'after', 2, 3)",
            "UPDATE filled SET c = 'now' WHERE id = 2",
        ],
    ),
    "forbidden": (
        PLAIN,
        [
            "UPDATE forbidden SET a = '' WHERE a IS NULL",
            "ALTER TABLE forbidden MODIFY a VARCHAR(9) NOT NULL",
            "INSERT INTO forbidden VALUES (8, 'after', NULL)",
        ],
    ),
    "wider": (PLAIN, ["ALTER TABLE wider MODIFY a VARCHAR(90), ADD KEY (b)", "CREATE INDEX i ON wider (a)"]),
}


def definitions() -> dict[str, str]:
    """Table → CREATE TABLE; `beat` is written to after DDL, whose own GTID enters no stored offset."""
    made = (
        {"beat": PLAIN}
        | {name: columns for name, (columns, _, _) in REREAD.items()}
        | {n: c for n, (c, _) in CARRIED.items()}
    )
    return {name: f"CREATE TABLE `{name}` {columns}" for name, columns in made.items()}


@pytest.fixture
def truncates() -> str:
    """The operations that the connector leaves out: "t", as by default, or "none"."""
    return "t"


@pytest.fixture
def followed(truncates: str, rig: Rig, connect_worker: ConnectWorker, kafka: str, tmp_path: Path) -> Iterator[Followed]:
    made = Followed(rig, connect_worker, kafka, tmp_path, definitions())
    made.follow({"skipped.operations": truncates})
    made.stamp()
    rig.run(*(f"INSERT INTO `{t}` (id, a) VALUES (1, 'x'), (2, NULL), (50, 'y')" for t in definitions()))
    rig.run(*(f"UPDATE `{t}` SET b = '{1 if t == 'digits' else 'other'}' WHERE id = 1" for t in definitions()))
    made.apply("run-1")
    yield made
    connect_worker.call("DELETE", f"/connectors/{made.base.pipeline.connector.name}")


def beat(followed: Followed, number: int) -> None:
    followed.rig.run(f"INSERT INTO beat VALUES ({number}, 'x', 'y')")


def by_policy(followed: Followed, **changes: object) -> None:
    pipeline = replace(followed.base.pipeline, policy=replace(Policy(), **changes))  # type: ignore[arg-type]
    followed.base = replace(followed.base, pipeline=pipeline)


def changed(followed: Followed) -> None:
    """Rows before the statements, then the statements."""
    before = (f"INSERT INTO `{t}` (id, a) VALUES (5, 'before')" for t in definitions() if t != "part_in")
    after = [one for _, statements, _ in REREAD.values() for one in statements]
    carried = [one for _, statements in CARRIED.values() for one in statements]
    followed.rig.run("DELETE FROM part_in WHERE id > 9", *before, *after, *carried)
    beat(followed, 100)


def test_inv_30_what_events_do_not_carry_is_read_again_by_itself(followed: Followed) -> None:
    by_policy(followed, schema_change="stop")
    changed(followed)
    for table, (_, _, reason) in REREAD.items():
        with pytest.raises(SchemaError, match=reason):
            followed.apply(f"stop-{table}", table)
    found = diagnose(observe(followed.base, watch=0))
    assert found.code == "TABLE_NEEDS_REREAD"
    assert len([name for name in found.evidence if " since " in name]) == len(REREAD)

    by_policy(followed, approval="never")
    done = followed.apply("run-2")
    # and what the server rebuilds for a carried statement, which would hide a TRUNCATE
    again = {table for table, result in done.items() if result.get("reread")}
    assert set(REREAD) <= again <= {*REREAD, *CARRIED}
    assert diagnose(observe(followed.base, watch=0)).code != "TABLE_NEEDS_REREAD"
    for table in definitions():
        assert followed.differences(table) == ([], []), table
    followed.rig.run(*(f"INSERT INTO `{t}` (id, b) VALUES (9, 3)" for t in REREAD if t not in {"part_in", "nowhere"}))
    followed.rig.run("INSERT INTO nowhere (id, c) VALUES (9, 3)")
    done = followed.apply("run-3")
    assert not [table for table, result in done.items() if result.get("reread")]
    for table in definitions():
        assert followed.differences(table) == ([], []), table


@pytest.mark.parametrize("truncates", ["none"])
def test_inv_30_what_is_certain_is_carried(followed: Followed) -> None:
    followed.rig.run(*(f"INSERT INTO {t} (id, a) VALUES (5, 'before')" for t in CARRIED))
    followed.rig.run(*(one for _, statements in CARRIED.values() for one in statements))
    beat(followed, 100)
    done = followed.apply("run-2", *CARRIED)
    assert not [table for table, result in done.items() if result.get("reread")]
    assert done["dropped"]["dropped"] == ["a"]
    assert sorted(done["filled"]["added"]) == ["c", "d", "e"]
    for table in CARRIED:
        assert followed.differences(table) == ([], []), table
    followed.rig.run("SET SESSION sql_mode = ''", "ALTER TABLE wider MODIFY b VARCHAR(9) NOT NULL")
    beat(followed, 101)
    assert followed.apply("run-3", "wider")["wider"]["reread"]  # NULLs stood there, and are texts now
    assert followed.differences("wider") == ([], [])


def test_inv_20_readers_see_the_old_state_until_the_new_one_is_proven(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = followed.rig.spark.table(followed.sink("swapped")).collect()
    followed.rig.run(*REREAD["swapped"][1], "INSERT INTO wider VALUES (5, 'a', 'b')")

    def fails(*_args: object) -> None:
        raise SchemaError("the comparison was cut off")

    with monkeypatch.context() as broken:
        broken.setattr(reread, "compared", fails)
        for number in range(reread.TRIES):
            with pytest.raises(CdcError, match="cut off"):
                followed.apply(f"cut-{number}")
    assert followed.rig.spark.table(followed.sink("swapped")).collect() == before
    assert followed.differences("wider") == ([], [])  # the other tables went on
    assert not list(followed.rig.lake.stages(followed.rig.schema))
    with pytest.raises(SchemaError, match="3 times without success"):
        followed.apply("run-2", "swapped")
    by_policy(followed, schema_change="reread", reread_limit=1)
    with pytest.raises(SchemaError, match=r"reread_limit 1|3 times"):
        followed.apply("run-3", "swapped")


def test_inv_06_a_table_is_read_again_although_a_quiet_connectors_offset_stays_behind(
    rig: Rig, connect_worker: ConnectWorker, kafka: str, tmp_path: Path
) -> None:
    """A connector without heartbeats names its last transaction with the next one, which does not come."""
    quiet = Followed(rig, connect_worker, kafka, tmp_path, {"quiet": f"CREATE TABLE quiet {PLAIN}"})
    quiet.follow({"heartbeat.interval.ms": "", "connect.keep.alive.interval.ms": ""})
    name = quiet.base.pipeline.connector.name
    try:
        quiet.stamp()
        rig.run(
            "INSERT INTO quiet (id) VALUES (1), (2)", "ALTER TABLE quiet ADD c INT DEFAULT 5", "UPDATE quiet SET c = 6"
        )
        topic, transport = f"{name}.{rig.schema}.quiet", quiet.base.clients.transport
        wait_until(
            lambda: transport.end_offsets([topic]).get(topic, {}).get(0, 0) >= 4 or None,
            timeout=180,
            what="all changes to be sent",
        )
        by_policy(quiet, approval="never", standstill=20)
        assert quiet.apply_now("run-1")["quiet"]["reread"]
        assert quiet.differences("quiet") == ([], [])
        assert not quiet.past(rig.source.position())
    finally:
        connect_worker.call("DELETE", f"/connectors/{name}")
