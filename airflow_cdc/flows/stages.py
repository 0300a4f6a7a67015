"""The sink as one that we write: its stages and letters; and whether it can hold stages, asked before a recovery changes anything."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Protocol, cast

from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.ports import Letters, Staging
from airflow_cdc.flows.run import Run

log = logging.getLogger("airflow_cdc.stages")


def staging_of(run: Run) -> Staging:
    """The sink as one that we write. Raises UsageError for one that only others write."""
    if (staging := run.clients.sink.staging) is None:
        raise _written_elsewhere(run, "holds no stages")
    return staging


def letters_of(run: Run) -> Letters:
    """Where the sink keeps records that could not be applied. Raises UsageError for one that only others write."""
    if (letters := run.clients.sink.letters) is None:
        raise _written_elsewhere(run, "keeps no dead letters")
    return letters


def _written_elsewhere(run: Run, fault: str) -> UsageError:
    writer = run.pipeline.sink.writer
    return UsageError(
        f"the sink {fault}: its tables are written by others (writer: {writer})",
        where=run.where,
        todo=f"Its rows are put right by a recovery: airflow cdc recover {run.pipeline.name}.",
    )


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
