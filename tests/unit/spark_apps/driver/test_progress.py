"""The words of a driver's log: progress over several tables, and the reason at the root of a Java stack trace."""

from __future__ import annotations

import pytest

from airflow_cdc.core.errors import SourceError
from airflow_cdc.spark_apps.driver.app import explained, read_run, root_cause
from airflow_cdc.spark_apps.driver.progress import Progress

TRACE = """An error occurred while calling o64.count.
: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Foo
Caused by: java.lang.RuntimeException: middle
\tat x.Y
Caused by: java.sql.SQLException: (conn=14) Subquery returns more than 1 row
\tat org.mariadb.Z
"""


def test_percent_follows_the_estimates_and_ends_at_100() -> None:
    progress = Progress({"a": 100, "b": 300})
    assert progress.percent() == 0
    progress.rows("a", 100)
    assert progress.percent() == 25
    progress.rows("b", 900)  # the server's guess was too low
    assert progress.percent() == 99
    progress.done("a", 90)
    assert progress.percent() == 99
    progress.done("b", 950)
    assert progress.percent() == 100


def test_progress_never_goes_back_and_knows_no_rows() -> None:
    progress = Progress({"a": 0})
    progress.rows("a", 50)
    progress.rows("a", 10)
    assert progress.estimate("a") == 0
    assert progress.estimate("x") == 0
    assert progress.percent() == 99
    assert Progress({"a": 0}).percent() == 0


def test_the_root_of_a_stack_trace_is_what_is_said() -> None:
    assert root_cause(TRACE) == "java.sql.SQLException: (conn=14) Subquery returns more than 1 row"
    assert root_cause("plain\nsecond") == "plain"
    assert root_cause("") == "no reason given"


def test_a_failed_spark_job_is_one_error_with_what_to_do() -> None:
    from pyspark.errors import AnalysisException

    with (
        pytest.raises(SourceError, match=r"could not read the tables: .*gone.* Clear it\."),
        explained(SourceError, "read the tables", where="run r", todo="Clear it."),
    ):
        raise AnalysisException("gone")
    with pytest.raises(KeyError), explained(SourceError, "x", where="", todo=""):
        raise KeyError("a fault of ours stays what it is")


def test_settings_without_a_part_are_refused_by_its_name() -> None:
    with pytest.raises(Exception, match="lacks endpoints, report_dir"):
        read_run({"pipeline": {}, "run_id": "r"})
