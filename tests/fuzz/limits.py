"""One call of a parser within its limits: a documented error at most, a second of processor time, 200 MB of new memory.

Processor time is that of the thread, so another process that keeps the machine busy is no fault. Memory is bounded by the
kernel (RLIMIT_DATA): what C libraries allocate counts too, and a call costs two microseconds instead of tracemalloc's double.
"""

from __future__ import annotations

import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

SECONDS: Final = 1.0
BYTES: Final = 200 << 20
# a call that never ends is broken off here, so that the run can continue
_ENDLESS: Final = 1.5
_STATM: Final = Path("/proc/self/statm")


class FaultError(AssertionError):
    """A parser broke its promise. The text says how."""


class _EndlessError(BaseException):
    """Raised in the middle of a call. No `except Exception` of a parser catches it."""


def measured(call: Callable[[], object], errors: tuple[type[Exception], ...]) -> float:
    """Call it, and return its processor time in seconds. Raises FaultError; `errors` are those that it documents."""
    seconds = _once(call, errors)
    if seconds > SECONDS:  # the first call may have compiled or imported something, or met a garbage collection
        seconds = _once(call, errors)
    if seconds > SECONDS:
        raise FaultError(f"it takes {seconds:.1f} s of processor time")
    return seconds


def _once(call: Callable[[], object], errors: tuple[type[Exception], ...]) -> float:
    begin = time.thread_time()
    try:
        with _memory_limit(), _time_limit():
            call()
    except errors:
        pass
    except _EndlessError:
        raise FaultError(f"it does not end within {_ENDLESS:g} s of processor time") from None
    except MemoryError:
        raise FaultError(f"it needs more than {BYTES >> 20} MB") from None
    except Exception as error:
        raise FaultError(f"undocumented {type(error).__name__} in {_place(error)}: {str(error)[:200]}") from error
    return time.thread_time() - begin


def _place(error: Exception) -> str:
    """The innermost line of the package, without which a KeyError says nothing."""
    frames = [
        one
        for one in traceback.extract_tb(error.__traceback__)
        if "airflow_cdc" in one.filename or "spark_apps" in one.filename
    ]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "no line of ours"


@contextmanager
def _memory_limit() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(_STATM.read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextmanager
def _time_limit() -> Iterator[None]:
    """Ends only what runs in the main thread: elsewhere Python delivers no signal, and the time alone is measured."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPROF, _end)
    signal.setitimer(signal.ITIMER_PROF, _ENDLESS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise _EndlessError
