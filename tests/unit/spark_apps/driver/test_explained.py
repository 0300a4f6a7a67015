"""What breaks within an application's work is one error: what, where, what to do, and nothing of a stack trace."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from sqlalchemy.exc import OperationalError

from airflow_cdc.core.errors import SinkError, StaleHeadError
from airflow_cdc.spark_apps.driver.app import explained

SPARK = "Job aborted\n\tat org.apache.Scheduler\nCaused by: java.sql.SQLException: Connection reset\n\tat a.b.C"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer"),
        (OperationalError("COMMIT", None, Exception("database or disk is full")), "database or disk is full"),
        (PySparkException(SPARK), "java.sql.SQLException: Connection reset"),
    ],
)
def test_what_breaks_is_one_error_with_its_reason(error: Exception, says: str) -> None:
    with (
        pytest.raises(SinkError, match=f"could not apply the changes: .*{says}") as caught,
        explained(SinkError, "apply the changes", where="table shop.orders", todo="Run it again."),
    ):
        raise error
    assert (caught.value.where, caught.value.todo) == ("table shop.orders", "Run it again.")
    assert "\n" not in str(caught.value)


def test_our_own_errors_and_faults_of_ours_stay_what_they_are() -> None:
    for error in (StaleHeadError("main moved", where="t"), KeyError("ours")):
        with pytest.raises(type(error)), explained(SinkError, "apply", where="t", todo=""):
            raise error
