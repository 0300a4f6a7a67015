"""The suite of real faults: it makes one for every row of PROBLEMS, and each under a name of its own."""

from __future__ import annotations

from airflow_cdc.core.diagnosis import PROBLEMS
from tests.faults_diagnosis.__main__ import ALL
from tests.faults_diagnosis.cases_source import CASCADE_CODE


def test_every_problem_is_made_on_a_real_server() -> None:
    made = {case.expected for case in ALL if isinstance(case.expected, str)} | {CASCADE_CODE}
    assert made == {problem.code for problem in PROBLEMS}


def test_names_are_distinct() -> None:
    names = [case.name for case in ALL]
    assert len(names) == len(set(names))
