"""Corrections through the topics: when they may be written, and what the control document says of them (INV 23, 47)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import CdcError, ConfigError, ConnectorError, TransportError, VerificationError
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.core.ports import Producer
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.core.topics import PartitionRanges
from airflow_cdc.decisions.corrections import check_complete, check_keyed, check_written
from airflow_cdc.flows.capture import captured, topic_names
from airflow_cdc.flows.recovery import change
from airflow_cdc.flows.run import Run

_SENT: Final = "corrections"
AGAIN = "Clear the task recover and all after it: it compares again, and writes only what still differs."


def producer_of(run: Run) -> Producer:
    """What writes into the pipeline's topics. Raises ConfigError where nothing can in transactions."""
    if (producer := run.clients.transport.producer) is None:
        raise ConfigError(
            f"corrections can't be written to {run.pipeline.transport.kind}: it has no transactions",
            where=run.where,
            todo="Such consumers are put right by a snapshot of the connector's own; rows that were deleted stay in them.",
        )
    return producer


def check_stopped(run: Run) -> None:
    """Raise ConnectorError unless the connector is stopped: its events and corrections would cross (INV 23)."""
    state = run.clients.connector.state(run.pipeline.connector.name)
    if state.state != "STOPPED" or state.tasks:
        raise ConnectorError(
            f"the connector is {state.state}, not STOPPED: its events and corrections would cross in the topic",
            where=run.where,
            todo="Clear the task stop_connector and all after it.",
        )


def check_corrected(run: Run, recovery: OpenRecovery) -> None:
    """Raise VerificationError if the connector must not be started yet: a correction may still be missing in a topic."""
    if run.pipeline.corrected is Corrected.THROUGH_TOPICS and (left := recovery.uncorrected):
        raise VerificationError(
            f"corrections of {', '.join(left)} were not written yet, and after the connector starts they can't be",
            where=run.where,
            todo="Clear the task recover and all after it.",
            verdict="INCONCLUSIVE",
        )


def check_topics(run: Run) -> Iterator[Check]:
    """Whether the pipeline's tables could be corrected through their topics now."""
    if run.pipeline.corrected is not Corrected.THROUGH_TOPICS:
        return
    subject, topics, definitions = run.pipeline.name, topic_names(run, run.pipeline.source.tables), captured(run)
    # a copy that can be read shows its ghosts, whatever of the topic is left
    check = check_complete if run.clients.feeder is None else check_written
    states = run.clients.transport.topic_states(sorted(set(topics.values())))
    faults = list[tuple[str, CdcError]]()
    for table, topic in topics.items():
        try:
            check_keyed(definitions[table])
            check(states.get(topic), topic, run.where)
            producer_of(run)
        except CdcError as error:
            faults.append((table, error))
    for table, fault in faults:
        yield Check(subject, "corrections", "bad", f"{table}: {fault.what}", fault.todo)
    if not faults:
        text = "every topic is complete from its beginning" if run.clients.feeder is None else "every topic has records"
        yield Check(subject, "corrections", "ok", text)


class Notes(Protocol):
    """Where a run writes down what it sends for a table, before and after it."""

    def sends(self, run: Run, table: str, topic: str, ends: Mapping[int, int]) -> None: ...

    def sent(self, run: Run, table: str, until: Mapping[int, int], rows: int, deletes: int) -> None: ...


class InRecovery:
    """In the open recovery: the connector stays stopped until all of it was sent."""

    def sends(self, run: Run, table: str, topic: str, ends: Mapping[int, int]) -> None:
        """See Notes."""
        change(run, lambda now: now.sends(table, topic, ends))

    def sent(self, run: Run, table: str, until: Mapping[int, int], rows: int, deletes: int) -> None:
        """See Notes."""
        change(run, lambda now: now.sent(table, until, rows, deletes))


class InLedger:
    """With the run, which is a repair."""

    def sends(self, run: Run, table: str, topic: str, ends: Mapping[int, int]) -> None:
        """See Notes."""
        self._note(run, table, topic=topic, since=_by_partition(ends))

    def sent(self, run: Run, table: str, until: Mapping[int, int], rows: int, deletes: int) -> None:
        """See Notes."""
        self._note(run, table, until=_by_partition(until), rows=rows, deletes=deletes)

    def _note(self, run: Run, table: str, **facts: object) -> None:
        tables = run.clients.control.ledger_get(run.run_id).get(_SENT, {})
        run.clients.control.ledger_set(run.run_id, _SENT, {**tables, table: {**tables.get(table, {}), **facts}})


def _by_partition(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in offsets.items()}


def send(
    run: Run,
    table: str,
    topic: str,
    ends: Mapping[int, int],
    write: Callable[[], tuple[PartitionRanges, int, int]],
    *,
    notes: Notes,
) -> None:
    """Write corrections of a table by `write`, which returns where they are and how many rows and deletes.

    `ends`: of the topic as it was compared. Written down in `notes` before and after, so that whoever comes next knows what is ours.
    Raises TransportError if somebody else writes to the topic.
    """
    check_stopped(run)
    _check_ends(run, topic, ends)
    notes.sends(run, table, topic, ends)
    ranges, rows, deletes = write()
    _check_between(run, topic, ends, ranges)
    until = run.clients.transport.end_offsets([topic])[topic]
    notes.sent(run, table, until, rows, deletes)


def _check_ends(run: Run, topic: str, ends: Mapping[int, int]) -> None:
    now = run.clients.transport.end_offsets([topic]).get(topic, {})
    if now != dict(ends):
        raise _others(run, topic, f"it ended at {dict(ends)} when it was compared, and now at {now}")


def _check_between(run: Run, topic: str, ends: Mapping[int, int], ranges: PartitionRanges) -> None:
    """Nobody's records between the compared ends and ours."""
    if strange := {p: begin for p, (begin, _) in ranges.items() if begin != ends.get(p)}:
        raise _others(run, topic, f"between its compared ends {dict(ends)} and our first records {strange} are others")


def _others(run: Run, topic: str, evidence: str) -> TransportError:
    return TransportError(
        f"somebody else writes to {topic} while the connector is stopped: {evidence}",
        where=run.where,
        todo=f"Find the producer (a second connector, or a worker that was given up), and end it. {AGAIN}",
    )
