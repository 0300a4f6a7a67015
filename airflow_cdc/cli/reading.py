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
    answers: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()
    Thread(target=_answer, args=(read, answers), daemon=True).start()
    try:
        value, error = answers.get(timeout=READ_WITHIN_S)
    except Empty:
        raise UnknownStateError(
            f"nothing could be read within {READ_WITHIN_S:.0f} s",
            where=where,
            todo="Run `airflow cdc doctor` to test each system.",
        ) from None
    if error is not None:
        raise _unread(error) from None
    return value  # type: ignore[return-value]  # without an error it is what `read` returned


def _answer(read: Callable[[], T], answers: SimpleQueue[tuple[T | None, BaseException | None]]) -> None:
    try:
        answers.put((read(), None))
    except BaseException as error:  # handed on to whoever waits
        answers.put((None, error))


def _unread(error: BaseException) -> BaseException:
    """The error, as an unknown where it only says that a system could not be asked."""
    if isinstance(error, CdcError) and error.unread:
        return UnknownStateError(error.what, where=error.where, todo=error.todo)
    return error
