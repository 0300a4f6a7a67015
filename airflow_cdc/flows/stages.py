"""Whether the sink can hold stages, asked before a recovery changes anything."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Protocol, cast

from airflow_cdc.core.check import Check
from airflow_cdc.flows.run import Run

log = logging.getLogger("airflow_cdc.stages")


class TriesStages(Protocol):
    """A sink whose server decides how stages are made, or whether they can be."""

    def try_stage(self) -> str:
        """How stages are made, found out if it is not known. Raises SinkError if the sink can hold none."""
        ...

    def staging_facts(self, namespace: str) -> Any:
        """What is known of it without a change: `how`, `doubt`, `todo`."""
        ...


def _trying(run: Run) -> TriesStages | None:
    """The sink, if there is one and it is one of these.

    Asked by name: a client behind a circuit has its methods by `__getattr__`, and that of no sink refuses every name.
    """
    if not run.pipeline.has_sink:
        return None
    sink: object = run.clients.sink
    return cast("TriesStages", sink) if hasattr(sink, "try_stage") else None


def require_stages(run: Run) -> None:
    """Raise SinkError if the sink can hold no stage."""
    if sink := _trying(run):
        log.info("%s", sink.try_stage())


def check_stages(run: Run) -> Iterator[Check]:
    """How stages are made, as far as it is known."""
    sink = _trying(run)
    if sink is None:
        return
    facts = sink.staging_facts(run.pipeline.sink.namespace)
    text = f"{facts.how}; {facts.doubt}" if facts.doubt else facts.how
    yield Check(run.pipeline.name, "stages", "warn" if facts.doubt else "ok", text, facts.todo)
