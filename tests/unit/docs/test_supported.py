"""The page of supported versions says what the runs left, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from stack import versions
from stack.supported import EVIDENCE, PAGE, in_demos, page, recovered, tables

SYSTEMS = """\
| system | version | missing | ghosts | different | verdict |
|---|---|---|---|---|---|
| A to B | Some Database 1.2, Debezium 3.6.1.Final | 0 | 0 | 0 | MATCH |
| A to B, again | the same | 0 | 0 | 0 | MATCH |
| C | Bad 9 | 0 | 1 | 0 | MATCH |
| D | Worse 9 | 0 | 0 | 0 | MISMATCH |
"""


def test_the_page_is_what_the_runs_left() -> None:
    assert PAGE.read_text() == page(), "run: make supported"


def test_only_what_ended_well_counts() -> None:
    assert recovered(SYSTEMS) == {
        ("Some Database", "1.2"): ["A to B", "A to B, again"],
        ("Debezium", "3.6.1.Final"): ["A to B", "A to B, again"],
    }


@pytest.mark.parametrize(("end", "found"), [("Exit\nstatus 0.", True), ("Exit status 1.", False)])
def test_a_demo_counts_if_it_ended_with_0(end: str, found: bool) -> None:
    text = f"# `make demo`\n\n2026-11-21, two cores. MySQL 9.7.4, Kafka and\nConnect 4.3.1. {end}\n\nPostgreSQL 1.1\n"
    wanted = {("MySQL", "9.7.4"): ["demo-x"], ("Kafka, Kafka Connect", "4.3.1"): ["demo-x"]}
    assert in_demos({"demo-x": text}) == (wanted if found else {})


def test_a_run_that_is_taken_away_takes_its_line_along(tmp_path: Path) -> None:
    for path in (
        *EVIDENCE.glob("demo-*.md"),
        *(EVIDENCE / f"{name}.md" for name in ("systems", "catalogs", "airflow-matrix")),
    ):
        (tmp_path / path.name).write_text(path.read_text())
    assert "| MariaDB | 11.8.9 |" in page(tmp_path)
    systems = tmp_path / "systems.md"
    systems.write_text("".join(line for line in systems.read_text().splitlines(keepends=True) if "11.8.9" not in line))
    assert "11.8.9" not in page(tmp_path)


def test_what_the_tests_pin_is_named() -> None:
    text = page()
    for version in (versions.AIRFLOW, versions.CANAL, versions.FLINK_CDC, versions.HUDI, versions.KAFKA_CONNECT_OLD):
        assert version in text


def test_every_table_of_results_is_read_whole() -> None:
    rows = next(tables((EVIDENCE / "systems.md").read_text()))
    assert len(rows) > 10
    assert {row["verdict"] for row in rows} == {"MATCH"}
