"""Circuit breakers: which call tries an endpoint that does not answer, and what the other calls get meanwhile.

Many pipelines share a Connect cluster, a broker or a server. If that is dead, each pipeline would wait for it in a
thread of its own. Here at most `AT_ONCE` calls wait for an endpoint. When a call fails after a while and no other call
had an answer meanwhile, the circuit opens: one call at a time asks, and calls that arrive while it waits share its
result. No call is refused because of an older result. An endpoint that refuses at once (a wrong password, an unknown
connector) counts as answering.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, TypeVar, cast

from airflow_cdc.core.errors import CdcError

T = TypeVar("T")

AT_ONCE: Final = 8
# a call that fails after longer than this counts as unanswered, whatever its error says
SLOW_SECONDS: Final = 1.0
QUEUE_SECONDS: Final = 15.0


class SilentEndpointError(CdcError):
    """Another call has just waited in vain for this endpoint, so this call did not ask it again."""


@dataclass(slots=True)
class _Circuit:
    """`answers` and `failures` never decrease, so they show what happened while a call waited."""

    asking: int = 0
    answers: int = 0
    failures: int = 0
    open_since: float | None = None
    reason: str = ""

    @property
    def has_room(self) -> bool:
        return self.asking < (AT_ONCE if self.open_since is None else 1)


class Circuits:
    """The circuits of all endpoints of a process, shared by its threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, queue_seconds: float = QUEUE_SECONDS) -> None:
        self._clock = clock
        self._queue_seconds = queue_seconds
        self._changed = threading.Condition()
        self._circuits: defaultdict[str, _Circuit] = defaultdict(_Circuit)

    def call(self, endpoint: str, read: Callable[[], T]) -> T:
        """The result of `read`. Raises what `read` raises, or SilentEndpointError if the endpoint was not asked."""
        circuit = self._enter(endpoint)
        began, answers, failure = self._clock(), circuit.answers, ""
        try:
            return read()
        except CdcError as error:
            failure = error.what
            raise
        finally:
            silent = bool(failure) and self._clock() - began >= SLOW_SECONDS
            self._leave(circuit, answers, failure if silent else "")

    def _enter(self, endpoint: str) -> _Circuit:
        with self._changed:
            circuit = self._circuits[endpoint]
            failures = circuit.failures

            def settled() -> bool:
                return circuit.has_room or (circuit.open_since is not None and circuit.failures > failures)

            in_time = self._changed.wait_for(settled, self._queue_seconds)
            shared = circuit.open_since is not None and circuit.failures > failures
            if shared or not in_time:
                raise SilentEndpointError(self._told(circuit), where=endpoint, todo="It will be retried automatically.")
            circuit.asking += 1
            return circuit

    def _told(self, circuit: _Circuit) -> str:
        if circuit.open_since is None:
            return f"{circuit.asking} calls wait for its answer already"
        silent = self._clock() - circuit.open_since
        return f"no answer for {silent:.0f} s; another call has just asked: {circuit.reason}"

    def _leave(self, circuit: _Circuit, answers: int, failure: str) -> None:
        with self._changed:
            circuit.asking -= 1
            if not failure:
                circuit.answers += 1
                circuit.open_since = None
            elif circuit.answers == answers:
                circuit.failures += 1
                circuit.reason = failure
                circuit.open_since = self._clock() if circuit.open_since is None else circuit.open_since
            self._changed.notify_all()


# attributes of a client that ask the same endpoint themselves (core/ports)
_PORTS: Final = frozenset({"replication", "staging", "letters", "producer", "groups"})


class _Guard:
    """A client whose methods all go through its endpoint's circuit, and so do those of the ports that it offers."""

    def __init__(self, client: object, endpoint: str, circuits: Circuits) -> None:
        self._client, self._endpoint, self._circuits = client, endpoint, circuits

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._client, name)
        if name in _PORTS and value is not None:
            return _Guard(value, self._endpoint, self._circuits)
        if not callable(value):
            return value

        @wraps(value)
        def guarded(*args: object, **kwargs: object) -> object:
            return self._circuits.call(self._endpoint, lambda: value(*args, **kwargs))

        return guarded


def guard(client: T, endpoint: str, circuits: Circuits) -> T:
    """`client` behind the circuit of `endpoint`."""
    return cast("T", _Guard(client, endpoint, circuits))
