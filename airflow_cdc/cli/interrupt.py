"""A Ctrl-C that ends a command whatever it is doing at that moment."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty
from threading import Event
from time import monotonic
from typing import Final, TypeVar

from airflow_cdc.cli.reading import beside

# How long the work has to clean up after a Ctrl-C; with what follows, the command ends within two seconds.
CLEAN_UP_S: Final = 1.0
_LOOK_S: Final = 0.2

T = TypeVar("T")


@contextmanager
def ctrl_c() -> Iterator[Event]:
    """An event that Ctrl-C or SIGTERM sets while the block runs, instead of raising KeyboardInterrupt.

    Python drops an exception that a signal raises inside a `__del__` or a callback: a hold whose Ctrl-C came at such a
    moment kept its lock for the whole of its 600 s.
    """
    over = Event()
    before = {number: signal.signal(number, lambda *_: over.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def until_over(over: Event, work: Callable[[], T]) -> T:
    """What `work` returns or raises; it runs in a thread and watches `over` itself.

    Raises KeyboardInterrupt if it has not ended CLEAN_UP_S after `over` was set, such as one that waits for a server: what
    it holds then ends with this process's connections.
    """
    wait, deadline = beside(work), float("inf")
    while monotonic() < deadline:
        try:
            return wait(_LOOK_S)
        except Empty:
            if over.is_set():
                deadline = min(deadline, monotonic() + CLEAN_UP_S)
    raise KeyboardInterrupt
