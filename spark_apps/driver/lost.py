"""Work that lost what an executor held is begun again: nothing of it was published, and it starts from the tables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

log = logging.getLogger("airflow_cdc.lost")

T = TypeVar("T")

# By these words a connection refuses to read a table in a later view than the first (mysql_exact.py).
VIEW_CLOSED: Final = "cdc: another read view was opened before"
# A local checkpoint is kept by executors only, so it dies with one of them, and Spark cannot compute it again.
MARKS: Final = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", VIEW_CLOSED)
TRIES: Final = 3


def begun_again(work: Callable[[], T], what: str) -> T:
    """The result of `work`, which is begun again, at most `TRIES` times, if it failed because an executor was lost.

    Only for work that may be done twice: it publishes by compare-and-set, at its end.
    """
    for _ in range(1, TRIES):
        try:
            return work()
        except Exception as error:
            if not was_lost(error):
                raise
            log.warning("%s begins again: an executor is gone, and what it held", what)
    return work()


def was_lost(error: BaseException) -> bool:
    """Whether the error, or one that it was raised from, says that something an executor held is gone."""
    return any(mark in str(one) for one in _chain(error) for mark in MARKS)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
