"""Work that lost an executor is begun again, at most so often; nothing else is."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from airflow_cdc.core.errors import SinkError, SourceError
from airflow_cdc.spark_apps.driver import lost


def gone(mark: str) -> SinkError:
    """As `explained` raises it: Spark's own text is in the cause."""
    error = SinkError("could not apply the changes")
    error.__cause__ = RuntimeError(f"Caused by: [{mark}] Checkpoint block rdd_3_0 not found!")
    return error


@pytest.mark.parametrize("mark", lost.MARKS)
def test_what_lost_an_executor_is_begun_again(mark: str) -> None:
    work = Mock(side_effect=[gone(mark), gone(mark), 7])
    assert lost.begun_again(work, "the batch") == 7


def test_it_is_given_up_in_the_end() -> None:
    work = Mock(side_effect=gone(lost.MARKS[0]))
    with pytest.raises(SinkError, match="could not apply"):
        lost.begun_again(work, "the batch")
    assert work.call_count == lost.TRIES


def test_another_error_is_not_tried_again() -> None:
    work = Mock(side_effect=SourceError("no such table"))
    with pytest.raises(SourceError):
        lost.begun_again(work, "the batch")
    assert work.call_count == 1
