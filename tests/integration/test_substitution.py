"""Texts in which Spark would substitute variables of its driver: names, labels, keys, defaults and dates of a backfill."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_cdc.spark_apps.driver.session import sibling
from airflow_cdc.spark_apps.driver.sql import literal, quote_ident
from tests.integration.apply_scene import Scene
from tests.integration.rig import Rig
from tests.paths import ROOT

NAMED = "CDC_TEST_SUBSTITUTED"
TEXTS = (f"${{env:{NAMED}}}", "${system:java.home}", "${spark.app.name}", "${hiveconf:x}", "${x}", "${env:" + NAMED)
TYPE, NAME = "${spark.app.name}", "${system:java.home}"
LABELLED = f"CREATE TABLE labelled (id VARCHAR(80) PRIMARY KEY, `{NAME}` ENUM('{TEXTS[0]}', '{TYPE}'))"


@pytest.fixture
def scene(rig: Rig, kafka: str, tmp_path: Path) -> Scene:
    return Scene(rig, kafka, tmp_path)


@pytest.mark.parametrize("text", TEXTS)
def test_inv_45_no_text_is_a_variable_of_spark(rig: Rig, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(NAMED, "a secret")
    for spark in (rig.spark, sibling(rig.spark), rig.spark.newSession()):
        assert spark.sql(f"SELECT {literal(text)} AS {quote_ident(text)}").collect()[0].asDict() == {text: text}
        assert spark.range(1).selectExpr(f"{literal(text)} AS v").where(f"v = {literal(text)}").count() == 1


def test_inv_45_what_a_source_writes_reaches_the_sink_as_it_is(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column's name, the labels of an ENUM, and keys."""
    monkeypatch.setenv(NAMED, "a secret")
    labelled = scene.table(LABELLED, (TEXTS[0], TEXTS[0]), ("plain", TYPE))
    scene.rig.run(f"INSERT INTO labelled VALUES ('{TEXTS[0]}', '{TEXTS[0]}'), ('plain', '{TYPE}')")
    changed = {"id": TEXTS[0], NAME: TYPE}
    scene.rig.run(f"UPDATE labelled SET `{NAME}` = '{TYPE}' WHERE id = '{TEXTS[0]}'")
    labelled.update({"id": TEXTS[0], NAME: TEXTS[0]}, **changed)
    scene.send(labelled)
    scene.apply()
    assert scene.rows("labelled") == sorted(scene.rig.run("SELECT * FROM labelled"), key=repr)


def test_inv_45_a_default_that_is_filled_into_earlier_rows_is_the_text_that_it_is(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for a constant at the source, and for the driver's environment by Spark: readers saw a connection's password."""
    monkeypatch.setenv(NAMED, "a secret")
    noted = scene.table("CREATE TABLE noted (id INT PRIMARY KEY)", (1,))
    scene.rig.run("INSERT INTO noted VALUES (1)")
    noted.create(id=2)
    scene.rig.run("INSERT INTO noted VALUES (2)")
    scene.send(noted)
    scene.apply()
    scene.alter("noted", f"ALTER TABLE noted ADD COLUMN note VARCHAR(100) NOT NULL DEFAULT '{TEXTS[0]}'")
    noted.create(id=3, note="x")
    scene.rig.run("INSERT INTO noted VALUES (3, 'x')")
    scene.send(noted)
    assert scene.apply(run_id="run-2")["noted"]["added"] == ["note"]
    assert (
        scene.rows("noted")
        == sorted(scene.rig.run("SELECT * FROM noted"), key=repr)
        == [
            (1, TEXTS[0]),
            (2, TEXTS[0]),
            (3, "x"),
        ]
    )


def test_every_session_of_spark_that_this_repository_makes_has_it_off() -> None:
    """The settings EXACT, those of the tests' sessions, which have it, or the setting itself."""
    made = [
        path
        for folder in ("spark_apps", "stack", "tests", "airflow_cdc", "demo", "docs")
        for path in (ROOT / folder).rglob("*.py")
        if "SparkSession.builder.appName" in (text := path.read_text()) or "SparkSession.builder.master" in text
    ]
    names = {path.name: path.read_text() for path in made if path != Path(__file__)}
    assert len(names) > 4
    exempt = {"warm_up.py", "whole.py", "apply_batch.py"}  # they read their own constants alone
    off = ("EXACT", "spark_conf(", "spark.sql.variable.substitute")
    assert [name for name, text in names.items() if name not in exempt and not any(word in text for word in off)] == []
