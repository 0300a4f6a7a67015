"""The rows about a sink connector, the program of others that fills the sink's tables: its state, its group, its letters.

Connect accepts any offset for a group without an error, also one beyond a topic's end, and it resumes from what its policy
says where there is none. So both are found by their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from airflow_cdc.core.feeder import FeederFacts
from airflow_cdc.core.observation import SchemaFacts, SinkFacts
from airflow_cdc.core.problem import WARNING, AnyCase, Evidence, Problem, Rules
from airflow_cdc.core.text import trace_excerpt
from airflow_cdc.decisions.diagnosis.connector_rows import STILL
from airflow_cdc.decisions.diagnosis.evidence import evidence, transport_of

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table

STATUS: Final = "sink connector status"
GROUP: Final = "consumer group"


def feeder_of(case: AnyCase) -> FeederFacts | None:
    """The sink connector, if it could be read."""
    return case.seen.feeder if isinstance(case.seen.feeder, FeederFacts) else None


def failed(case: AnyCase) -> Evidence | None:
    """One value that it cannot write ends the task for all tables, and its group stays where it is."""
    facts = feeder_of(case)
    if facts is None or not (failures := facts.state.failures):
        return None
    traces = {f"failure {number}": trace_excerpt(trace) or "none given" for number, trace in enumerate(failures, 1)}
    return evidence(case, STATUS, {**_states(facts), **traces})


def stopped(case: AnyCase) -> Evidence | None:
    facts = feeder_of(case)
    if facts is None or facts.running or facts.state.failures:
        return None
    return evidence(case, STATUS, _states(facts))


def group_lost(case: AnyCase) -> Evidence | None:
    """The group's place is none of the topic's, or there is none while the sink connector rests over filled tables."""
    facts = feeder_of(case)
    if facts is None:
        return None
    places = dict(_odd_places(facts))
    if not facts.committed and facts.state.state in STILL and _filled(case):
        places[facts.group] = (
            "has no offset: once started it reads from where auto.offset.reset says, not from where it was"
        )
    return evidence(case, GROUP, places) if places else None


def _odd_places(facts: FeederFacts) -> Iterator[tuple[str, str]]:
    for topic, number, at, (first, end) in facts.partitions:
        if at is not None and at > end:
            yield f"{topic}/{number}", f"consumed up to {at}, beyond the topic's end {end}"
        elif at is not None and at < first:
            yield f"{topic}/{number}", f"consumed up to {at}, and the first record there is {first}"


def _filled(case: AnyCase) -> bool:
    sink = case.seen.sink
    return isinstance(sink, SinkFacts) and any(table.rows for table in sink.tables.values())


def letters(case: AnyCase) -> Evidence | None:
    facts = feeder_of(case)
    if facts is None or not facts.letters:
        return None
    return evidence(case, "dead-letter queue", {facts.letters_topic: f"{facts.letters} records that were not written"})


def shared(case: AnyCase) -> Evidence | None:
    """Members that are no tasks of this sink connector consume a part of the topics in its place."""
    facts = feeder_of(case)
    if facts is None or not facts.strangers:
        return None
    return evidence(case, GROUP, {facts.group: f"has other members, too: {', '.join(facts.strangers)}"})


def behind(case: AnyCase) -> Evidence | None:
    facts = feeder_of(case)
    if facts is None or not facts.late:
        return None
    limit = case.seen.pipeline.policy.max_lag
    waiting = {name: sum(end - begin for begin, end in spans.values()) for name, spans in facts.waiting.items()}
    late = {
        f"waiting in {topic}": f"{waiting.get(topic, count)} records, {count} of them for longer than policy.max_lag of {limit} s"
        for topic, count in facts.late.items()
    }
    return evidence(case, GROUP, late)


def _states(facts: FeederFacts) -> dict[str, str]:
    tasks = {f"task {task.id} state": task.state for task in facts.state.tasks}
    return {"sink connector": f"{facts.name} {facts.state.state}", **(tasks or {"tasks": "none"})}


FEEDER_ROWS: Final = (
    Problem(
        "SINK_GROUP_LOST",
        28,
        "The sink connector's consumer group is at a place that its topic does not have, or at none.",
        group_lost,
        WARNING,
        on_request=("full_snapshot", "diff_repair"),
    ),
    Problem(
        "SINK_CONNECTOR_FAILED",
        67,
        "The sink connector has failed: nothing reaches the sink, and its records wait in their topics.",
        failed,
        WARNING,
        on_request=("full_snapshot", "diff_repair"),
    ),
    Problem(
        "SINK_CONNECTOR_STOPPED",
        69,
        "The sink connector does not run: nothing reaches the sink, and its records wait in their topics.",
        stopped,
        WARNING,
        on_request=("full_snapshot", "diff_repair"),
    ),
    Problem(
        "SINK_LETTERS",
        77,
        "The sink connector put records into its dead-letter queue: these changes are missing in the sink.",
        letters,
        WARNING,
        on_request=("full_snapshot", "diff_repair"),
    ),
    Problem(
        "SINK_GROUP_SHARED",
        78,
        "Other members of the sink connector's consumer group take a part of its records.",
        shared,
        WARNING,
        on_request=("full_snapshot", "diff_repair"),
    ),
    Problem(
        "SINK_BEHIND",
        89,
        "Records wait to be consumed by the sink connector: readers see old rows.",
        behind,
        WARNING,
        on_request=("full_snapshot", "diff_repair"),
    ),
)


class Judged(Protocol):
    """A sink connector's settings, as its kind understands them."""

    def faults(self) -> Iterable[tuple[str, str]]:
        """(setting, what it means) of all settings with which a wrong row can't be put right through the topics."""
        ...

    def table_faults(self, table: Table, topic: str) -> Iterable[tuple[str, str]]:
        """The same, about one table and its topic."""
        ...


def settings_rules(config_of: Callable[[FeederFacts, AnyCase], Judged], means: str) -> Rules:
    """The rules of a sink that a sink connector fills. `means`: what it means that its settings have faults."""

    def faults(case: AnyCase) -> Iterator[tuple[str, str]]:
        facts = feeder_of(case)
        if facts is None:
            return
        config = config_of(facts, case)
        yield from config.faults()
        transport, schema = transport_of(case.seen), case.seen.schema
        topics = transport.of_table if transport else {}
        for name, table in (schema.definitions if isinstance(schema, SchemaFacts) else {}).items():
            if name in topics:
                yield from config.table_faults(table, topics[name])

    def misconfigured(case: AnyCase) -> Evidence | None:
        wrong = dict(faults(case))
        return evidence(case, STATUS, wrong) if wrong else None

    def cannot_be_corrected(case: AnyCase) -> str:
        wrong = [f"{name} is {what}" for name, what in faults(case)]
        return f"{means}: {'; '.join(wrong)}" if wrong else ""

    row = Problem(
        "SINK_MISCONFIGURED",
        79,
        "The sink connector is set so that rows of the sink stay wrong and cannot be put right.",
        misconfigured,
        WARNING,
    )
    blockers = dict.fromkeys(("full_snapshot", "diff_repair"), (cannot_be_corrected,))
    return Rules((*FEEDER_ROWS, row), blockers=blockers)
