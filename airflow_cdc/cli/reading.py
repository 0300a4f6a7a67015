"""Reading for commands that a person waits for: an answer soon, and an unknown where nothing could be read."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

from airflow_cdc.core.errors import CdcError, UnknownStateError

# one system's answer, with every retry; and all of them together
ANSWER_WITHIN_S = 2.5
READ_WITHIN_S = 8.0

T = TypeVar("T")


def read_soon(read: Callable[[], T], *, where: str) -> T:
    """What `read` returns. Raises UnknownStateError when nothing could be read, or not within READ_WITHIN_S.

    It runs in a thread that ends with the process: no system's own time-out keeps the person waiting.
    """
    try:
        return beside(read)(READ_WITHIN_S)
    except Empty:
        raise UnknownStateError(
            f"nothing could be read within {READ_WITHIN_S:.0f} s",
            where=where,
            todo="Run `airflow cdc doctor` to test each system.",
        ) from None
    except CdcError as error:
        if error.unread:  # it only says that a system could not be asked
            raise UnknownStateError(error.what, where=error.where, todo=error.todo) from None
        raise


def beside(work: Callable[[], T]) -> Callable[[float], T]:
    """Run `work` in a thread that ends with the process; `wait(seconds)` returns or raises what it does, or raises Empty."""
    answers: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:  # handed on to whoever waits
            answers.put((None, error))

    def wait(seconds: float) -> T:
        value, error = answers.get(timeout=seconds)
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # without an error it is what `work` returned

    Thread(target=run, daemon=True).start()
    return wait
