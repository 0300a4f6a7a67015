"""One base for every trigger: it serializes, polls and reports; a trigger only says what it asks.

PyMySQL and kafka-python block. All triggers of a triggerer share one event loop, so every question is asked on a
thread, and given up after a time: a hung server costs a thread, never the loop. A trigger whose last question was not
answered asks the next one on threads of its own kind, so that servers that are down never use up the threads of those
that answer.
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
from typing import Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_cdc.core.errors import CdcError

# Threads that wait cost next to nothing; how many questions are worked on at once is bounded by the processor anyway.
PROBE_THREADS = 48
SILENT_THREADS = 16
# a question that learned nothing and took longer than this was not answered
SILENT_SECONDS = 1.0
PROBE_TIMEOUT = 45.0

_pool = ThreadPoolExecutor(max_workers=PROBE_THREADS, thread_name_prefix="cdc-probe")
_silent_pool = ThreadPoolExecutor(max_workers=SILENT_THREADS, thread_name_prefix="cdc-probe-silent")


class State(StrEnum):
    """What a probe found. WAITING and UNKNOWN are asked again, the others are final.

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


FINAL = frozenset({State.AVAILABLE, State.LOST, State.PROBLEM, State.RECOVERED})


@dataclass(frozen=True, slots=True)
class Answer:
    """One probe's verdict and, in words, why."""

    state: State
    reason: str

    @property
    def final(self) -> bool:
        return self.state in FINAL

    def to_event(self, **facts: Any) -> dict[str, Any]:
        """The shape of every event: `state`, `reason`, and what was asked about."""
        return {"state": str(self.state), "reason": self.reason, **facts}


def first_pause(poke_interval: float) -> float:
    """Seconds between the first two looks of a trigger: any share of the interval."""
    return random.uniform(0.0, poke_interval)  # noqa: S311 - no secret


class ProbeTrigger(BaseTrigger):
    """Ask `probe` every `poke_interval` seconds until its answer is final or `timeout` seconds have passed.

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

    def __init_subclass__(cls, **kwargs: Any) -> None:
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
    async def prepare(self) -> Any:
        """Resolve what the probe needs (an endpoint) without blocking the loop. Raises CdcError."""

    @abstractmethod
    def probe(self, prepared: Any) -> Answer:
        """Ask once; may block, runs on a thread. Raises CdcError when nothing could be learned."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        deadline = time.monotonic() + self.timeout
        try:
            prepared = await self.prepare()
        except CdcError as error:
            yield self._event(Answer(State.ERROR, str(error)))
            return
        # All triggers of a triggerer begin together when it starts: unless their second looks are spread over the interval,
        # they come in one burst each time, and a burst of 150 looks keeps the processor for a quarter of a minute.
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

    async def _ask(self, prepared: Any) -> Answer:
        began = time.monotonic()
        if self._asked is None or self._asked.done():  # a question that hangs is waited for again, not asked twice
            self._asked = (_silent_pool if self._silent else _pool).submit(self.probe, prepared)
        try:
            answer = await asyncio.wait_for(asyncio.wrap_future(self._asked), PROBE_TIMEOUT)
        except TimeoutError:
            answer = Answer(State.UNKNOWN, f"no answer within {PROBE_TIMEOUT:g} s")
        except CdcError as error:
            answer = Answer(State.UNKNOWN, str(error))
        self._silent = answer.state is State.UNKNOWN and time.monotonic() - began >= SILENT_SECONDS
        return answer

    def facts(self) -> dict[str, Any]:
        """What was asked about, as its event says it."""
        return {name: getattr(self, name) for name in self.fields}

    def _event(self, answer: Answer) -> TriggerEvent:
        payload = answer.to_event(**self.facts())
        return TriggerEvent(payload)  # type: ignore[no-untyped-call]
