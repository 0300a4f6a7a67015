"""Columns of any name: words of SQL, names that our own statements use, dots, quotes. Everything has to work as with plain ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.report import Verdict
from airflow_cdc.decisions.compare.expectations import judged
from airflow_cdc.reports.data_docs import write_pages
from airflow_cdc.spark_apps.compare import results
from airflow_cdc.spark_apps.compare.expectations import counted
from airflow_cdc.spark_apps.driver.progress import Progress
from airflow_cdc.spark_apps.driver.sql import quote_ident
from airflow_cdc.spark_apps.repair import repair
from airflow_cdc.spark_apps.snapshot.differences import read_differences
from airflow_cdc.spark_apps.types import sink_type
from tests.integration.mirror import Mirror
from tests.integration.rig import Rig
from tests.integration.verify_support import NUMBERS, Scene, counts, make_scene

ALL = Policy(max_deletes=Limit(100, percent=True))
KEY = ("before", "key")
# names that stood, or stand, in our own statements and frames; names that SQL means something by; names that need quotes
NUMBERED = (
    "leaf", "digest", "n", "value", "cdc", "a.b", "after", "op", "count", "select", "ß x", "b`q", "h", "v0", "k0",
    "image", "cdc__key_text", "leaf.n", "it's", 'a"b', "${env:PATH}", "${system:java.home}", "${spark.app.name}",
)  # fmt: skip
REQUIRED = ("a.b", "b`q", "count", "select", "ß x", 'a"b', "it's", "leaf.n")
DOCS = ("key_text", "doc.x")
OTHERS = (*NUMBERED, *DOCS)


def create_sql(table: str, *, keyed: bool = True) -> str:
    columns = [
        *(f"{quote_ident(name)} INT NOT NULL" for name in KEY),
        *(f"{quote_ident(name)} INT{' NOT NULL' if name in REQUIRED else ''}" for name in NUMBERED),
        *(f"{quote_ident(name)} JSON" for name in DOCS),
        *([f"PRIMARY KEY ({', '.join(map(quote_ident, KEY))})"] if keyed else []),
    ]
    return f"CREATE TABLE {table} ({', '.join(columns)})"


def fill_sql(table: str, rows: int = 40) -> str:
    columns = ", ".join(map(quote_ident, (*KEY, *OTHERS)))
    values = ["i", "i % 3", *("i" for _ in NUMBERED), *("JSON_OBJECT('i', i)" for _ in DOCS)]
    return f"INSERT INTO {table} ({columns}) {NUMBERS.format(rows)} SELECT {', '.join(values)} FROM n"


def row(number: int, **changes: Any) -> dict[str, Any]:
    """A row as an event carries it."""
    plain = {"before": number, "key": number % 3, **dict.fromkeys(NUMBERED, number)}
    documents = dict.fromkeys(DOCS, f'{{"i":{number}}}')
    return {**plain, **documents, **changes}


@pytest.fixture
def scene(rig: Rig) -> Callable[..., Scene]:
    """`scene(name, *ddl)`: the table made, filled and read into a stage."""
    return partial(make_scene, rig)


def spoiled(made: Scene) -> str:
    """One value of each column changed, in a row of its own from the sixth on."""
    new = {"int": "9999", "string": "'[]'"}
    changes = (
        f"{quote_ident(name)} = IF(`before` = {at}, {new[sink_type(made.table.column(name))]}, {quote_ident(name)})"
        for at, name in enumerate(OTHERS, 6)
    )
    return f"UPDATE {{}} SET {', '.join(changes)}"


def test_any_name_is_compared(scene: Callable[..., Scene]) -> None:
    """Equal in flight and at rest; then one value of each column is changed."""
    made = scene("odd", create_sql("odd"), fill_sql("odd", len(OTHERS) + 5))
    made.start = 0
    made.source("UPDATE odd SET `leaf` = 7777 WHERE `before` = 3", "DELETE FROM odd WHERE `before` = 4")
    made.events.event("u", row(3), row(3, leaf=7777))
    made.events.event("d", row(4), None)
    verdict, outcome = made.verdict()
    assert verdict is Verdict.MATCH, outcome.reasons
    assert outcome.in_flight == 2
    made.sink(spoiled(made))
    verdict, outcome = made.verdict()
    assert verdict is Verdict.MISMATCH
    assert counts(outcome) == (0, 0, len(OTHERS), 0)


@pytest.mark.slow
def test_any_name_is_compared_without_a_key(scene: Callable[..., Scene]) -> None:
    made = scene("odd", create_sql("odd", keyed=False), fill_sql("odd", len(OTHERS) + 5))
    assert made.verdict()[0] is Verdict.MATCH
    made.sink(spoiled(made))
    verdict, outcome = made.verdict()
    assert verdict is Verdict.MISMATCH
    assert counts(outcome) == (len(OTHERS), len(OTHERS), 0, 0)


def test_any_name_is_repaired(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are applied, what differs is read again, both rows are shown, and the result is published."""
    mirror = Mirror(rig, tmp_path).opened(monkeypatch)
    table = mirror.table("odd", create_sql("odd"), fill_sql("odd"))
    mirror.rig.run("UPDATE odd SET `a.b` = 7777 WHERE `before` = 3", "DELETE FROM odd WHERE `before` = 4")
    mirror.topic(table).event("u", row(3), row(3, **{"a.b": 7777}))
    mirror.topic(table).event("d", row(4), None)
    mirror.interfere(table, "UPDATE {} SET `select` = 9, `doc.x` = '[]' WHERE `before` = 10")
    mirror.interfere(table, "DELETE FROM {} WHERE `before` = 11")
    run = mirror.run("run-1", dry_run=True)
    assert repair(run, rig.spark)["verdict"] == "MISMATCH"
    (rows,) = tmp_path.rglob("rows-*.json")
    assert {tuple(pair["differ"]) for pair in json.loads(rows.read_text())} == {(), ("select", "doc.x")}
    assert repair(mirror.run("run-2", policy=ALL), rig.spark)["verdict"] == "MATCH"
    names = ["before", "key", "a.b", "select", "leaf", "doc.x"]
    found = rig.lake.read_arrow(rig.schema, "odd").select(names).to_pylist()
    sql = f"SELECT {', '.join(map(quote_ident, names))} FROM odd ORDER BY `before`"
    wanted = [(*row[:5], row[5].replace(" ", "")) for row in rig.run(sql)]
    assert sorted(tuple(one.values()) for one in found) == wanted


def test_any_name_is_read_by_its_differences(scene: Callable[..., Scene], rig: Rig) -> None:
    made = scene("odd", create_sql("odd"), fill_sql("odd"))
    made.sink("UPDATE {} SET `cdc__key_text` = 9, `leaf` = 9 WHERE `before` = 10")
    rig.lake.publish(made.stage, made.head, made.stage.base_head)
    reading = rig.reading(made.table, rig.source.watermark(), "recov_2_1")
    assert read_differences(rig.tools(), reading, Progress({made.table.full_name: 0})) is not None
    made.stage, made.head = reading.stage, rig.lake.stage_head(reading.stage)
    assert made.verdict()[0] is Verdict.MATCH


@pytest.mark.slow
def test_any_name_has_its_expectations(scene: Callable[..., Scene], tmp_path: Path) -> None:
    """The suite passes, and fails for a value that is not allowed."""
    made = scene("odd", create_sql("odd"), fill_sql("odd"))
    outcome = made.compare()
    (sound,) = counted([outcome])
    assert results.make_report(outcome, judged(sound)).verdict is Verdict.MATCH
    made.sink("UPDATE {} SET `a.b` = NULL WHERE `before` = 10")
    (other,) = counted([made.compare()])
    write_pages([other], tmp_path)  # Great Expectations says the same
    (failed,) = judged(other).failures
    assert failed == "NULLs in a.b: 1, expected 0"
