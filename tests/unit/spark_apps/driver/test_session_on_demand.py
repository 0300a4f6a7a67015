"""A session that is made when something is first asked of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from airflow_cdc.spark_apps.driver.session import SessionOnDemand, begin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Session:
    """Stands in for Spark's."""

    conf = "its settings"
    stopped = 0

    def stop(self) -> None:
        self.stopped += 1


def counted() -> tuple[SparkSession, list[Session]]:
    made = list[Session]()

    def make() -> SparkSession:
        made.append(Session())
        return cast("SparkSession", made[-1])

    return SessionOnDemand.of(make), made


def test_it_is_made_once_when_it_is_first_used_and_then_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionOnDemand, "needed", False)
    spark, made = counted()
    assert (made, SessionOnDemand.needed) == ([], False)
    threads = [threading.Thread(target=lambda: spark.conf) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert cast("Any", spark).conf == "its settings"
    spark.stop()
    assert ([one.stopped for one in made], SessionOnDemand.needed) == ([1], True)


def test_one_that_nobody_needed_is_not_made_to_be_stopped(caplog: pytest.LogCaptureFixture) -> None:
    spark, made = counted()
    with caplog.at_level("INFO", "airflow_cdc.driver"):
        spark.stop()
    assert (made, "no session of Spark was needed" in caplog.text) == ([], True)


def test_it_can_be_begun_beside_other_work_and_what_fails_is_raised_where_it_is_needed() -> None:
    spark, made = counted()
    begin(spark)
    spark.stop()  # waits for what was begun, or comes before it
    assert cast("Any", spark).conf == "its settings"
    assert len(made) == 1

    def fails() -> SparkSession:
        raise ValueError("no such master")

    broken = SessionOnDemand.of(fails)
    begin(broken)
    with pytest.raises(ValueError, match="no such master"):
        _ = broken.conf


def test_a_session_that_is_there_already_is_not_begun() -> None:
    begin(cast("SparkSession", object()))
