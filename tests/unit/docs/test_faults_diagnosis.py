"""The suite of real faults: it makes one for every row of PROBLEMS, and each under a name of its own."""

from __future__ import annotations

import pytest

from airflow_cdc.kinds import problems_for
from airflow_cdc.sources.postgres.problems import PROBLEMS
from stack.versions import MARIADB, MYSQL_TESTED
from tests.faults_diagnosis import cases_canal, cases_flink, cases_postgres
from tests.faults_diagnosis.__main__ import ALL, existing
from tests.faults_diagnosis.case import Case
from tests.faults_diagnosis.cases_source import UNLOGGED_CASCADE
from tests.integration.jdbc.faults import FAULTS
from tests.unit.decisions.diagnosis.test_problems_of_kinds import combinations


def test_every_problem_is_made_on_a_real_server() -> None:
    cases = (*ALL, *cases_flink.CASES, *cases_canal.CASES)
    made = {case.expected for case in cases if isinstance(case.expected, str)} | {UNLOGGED_CASCADE}
    made |= {fault.code for fault in FAULTS}
    pipelines = [pipeline for pipeline in combinations() if pipeline.source.kind != "postgres"]
    assert len(pipelines) >= 2
    assert made == {problem.code for pipeline in pipelines for problem in problems_for(pipeline)}


def test_every_problem_of_postgres_is_made_on_a_real_server() -> None:
    """Those that belong to no source are made on MySQL; some of them here too."""
    made = {case.expected for case in cases_postgres.CASES}
    assert {problem.code for problem in PROBLEMS} <= made


@pytest.mark.parametrize("cases", [ALL, cases_postgres.CASES, cases_flink.CASES, cases_canal.CASES])
def test_names_are_distinct(cases: tuple[Case, ...]) -> None:
    names = [case.name for case in cases]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("series", list(MYSQL_TESTED))
def test_a_case_that_is_left_out_says_why(
    series: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STACK_MYSQL", series)
    there = existing()
    left_out = [case for case in ALL if case not in there]
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in said] == [case.name for case in left_out]
    assert bool(left_out) is (series in MARIADB)
