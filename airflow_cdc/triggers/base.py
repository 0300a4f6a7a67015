"""One base for every trigger: it serializes, polls and reports; a trigger only declares its probe.

PyMySQL and kafka-python block. All triggers of a triggerer share one event loop, so every probe runs on a thread and is
given up after a time: a hung server costs a thread, never the loop. If a trigger's last probe got no answer, its next
one runs on a separate set of threads, so that servers that are down never use up the threads of servers that answer.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import abstractmethod
from collections.abc import AsyncIterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from inspect import signature
from typing import Any, ClassVar, Generic, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_cdc.core.errors import CdcError, foreseen

T = TypeVar("T")

# Waiting threads cost almost nothing; the number of probes at work is limited by the processor anyway.
PROBE_THREADS = 48
SILENT_THREADS = 16
# a probe that failed and took longer than this counts as unanswered
SILENT_SECONDS = 1.0
PROBE_TIMEOUT = 45.0
# an odd answer may be of a server that is just starting; one that stays odd is told to people, by a task that fails
BROKEN_PROBES = 5

_pool = ThreadPoolExecutor(max_workers=PROBE_THREADS, thread_name_prefix="cdc-probe")
_silent_pool = ThreadPoolExecutor(max_workers=SILENT_THREADS, thread_name_prefix="cdc-probe-silent")


class State(StrEnum):
    """The result of a probe. After WAITING and UNKNOWN it is repeated; the others are final.

    PROBLEM and RECOVERED are for a watched pipeline: something is wrong now, or no longer.
    """

    AVAILABLE = "available"
    LOST = "lost"
    WAITING = "waiting"
    UNKNOWN = "unknown"
    TIMEOUT = "timeout"
    ERROR = "error"
    PROBLEM = "problem"
    RECOVERED = "recovered"


FINAL = frozenset({State.AVAILABLE, State.LOST, State.PROBLEM, State.RECOVERED, State.ERROR})


@dataclass(frozen=True, slots=True)
class Answer:
    """One probe's result, and the reason in words."""

    state: State
    reason: str

    @property
    def final(self) -> bool:
        return self.state in FINAL

    def to_event(self, **facts: object) -> dict[str, object]:
        """The shape of every event: `state`, `reason`, and the facts that the probe was about."""
        return {"state": str(self.state), "reason": self.reason, **facts}


def first_pause(poke_interval: float) -> float:
    """Seconds between the first two probes of a trigger: a random share of the interval."""
    return random.uniform(0.0, poke_interval)  # noqa: S311 - not a secret


class ProbeTrigger(BaseTrigger, Generic[T]):
    """Run `probe` every `poke_interval` seconds until its answer is final or `timeout` seconds have passed.

    A subclass declares `fields`, the names of its own keyword arguments (all plain JSON; connections by id, never
    a credential), and implements `probe`. A declaration that does not fit its __init__ fails at import.
    """

    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *, poke_interval: float, timeout: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.poke_interval = poke_interval
        self.timeout = timeout
        self._silent = False
        self._asked: Future[Answer] | None = None
        self._broken = 0

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        declared = {*cls.fields, "poke_interval", "timeout"}
        accepted = set(signature(cls.__init__).parameters) - {"self"}
        if declared != accepted:
            raise TypeError(f"{cls.__name__}.fields and __init__ disagree on {sorted(declared ^ accepted)}")

    def serialize(self) -> tuple[str, dict[str, Any]]:
        cls = type(self)
        names = (*cls.fields, "poke_interval", "timeout")
        return f"{cls.__module__}.{cls.__qualname__}", {name: getattr(self, name) for name in names}

    @abstractmethod
    async def prepare(self) -> T:
        """Resolve what the probe needs (an endpoint) without blocking the loop. Raises CdcError."""

    @abstractmethod
    def probe(self, prepared: T) -> Answer:
        """Run once, on a thread; may block. Raises CdcError if there was no answer."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        deadline = time.monotonic() + self.timeout
        try:
            prepared = await self.prepare()
        except Exception as error:
            yield self._event(Answer(State.ERROR, str(foreseen(error, "preparing the trigger"))))
            return
        # All triggers of a triggerer begin together when it starts. Unless their second probes are spread over the
        # interval, they come in one burst each time, and a burst of 150 probes occupies the processor for a quarter of
        # a minute.
        pause = first_pause(self.poke_interval)
        while True:
            answer = await self._ask(prepared)
            if answer.final:
                break
            if time.monotonic() + pause > deadline:
                answer = Answer(State.TIMEOUT, f"no final answer within {self.timeout:g} s; last: {answer.reason}")
                break
            await asyncio.sleep(pause)
            pause = self.poke_interval
        yield self._event(answer)

    async def _ask(self, prepared: T) -> Answer:
        began = time.monotonic()
        if self._asked is None or self._asked.done():  # wait again for a probe that hangs, do not start a second one
            self._asked = (_silent_pool if self._silent else _pool).submit(self.probe, prepared)
        try:
            answer = await _answer_of(self._asked)
        except CdcError as error:
            answer = Answer(State.UNKNOWN, str(error))
        except Exception as error:
            self._broken += 1
            state = State.ERROR if self._broken >= BROKEN_PROBES else State.UNKNOWN
            return Answer(state, str(foreseen(error, "a probe")))
        self._broken = 0
        self._silent = answer.state is State.UNKNOWN and time.monotonic() - began >= SILENT_SECONDS
        return answer

    def facts(self) -> dict[str, object]:
        """The facts that the probe was about, for its event."""
        return {name: getattr(self, name) for name in self.fields}

    def _event(self, answer: Answer) -> TriggerEvent:
        payload = answer.to_event(**self.facts())
        return TriggerEvent(payload)  # type: ignore[no-untyped-call]


async def _answer_of(asked: Future[Answer]) -> Answer:
    """The probe's answer, UNKNOWN if there is none in time. A probe that no thread has begun is not begun after a cancellation.

    `asyncio.wait_for` would swallow a cancellation that comes as the answer does (https://github.com/python/cpython/issues/86296,
    before Python 3.12): a trigger that Airflow has given up would go on.
    """
    future = asyncio.wrap_future(asked)
    try:
        done, _ = await asyncio.wait({future}, timeout=PROBE_TIMEOUT)
    except asyncio.CancelledError:
        future.cancel()
        raise
    return future.result() if done else Answer(State.UNKNOWN, f"no answer within {PROBE_TIMEOUT:g} s")
