"""Checks of what a pipeline needs, made before it is needed: each check reports its finding and what to do."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
from collections.abc import Callable, Iterator

from airflow_cdc.core.capture import CaptureSettings
from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import CdcError, ConfigError, foreseen
from airflow_cdc.decisions.throttle import figures, too_busy
from airflow_cdc.flows.appliable import asked_of, refusals
from airflow_cdc.flows.capture import captured, defined, settings, topic_names
from airflow_cdc.flows.carried import look_through
from airflow_cdc.flows.corrections import check_topics
from airflow_cdc.flows.feeder import check_feeder, places_of
from airflow_cdc.flows.null_defaults import fault_of
from airflow_cdc.flows.recoverable import look_at_events
from airflow_cdc.flows.run import Run, named_replicas
from airflow_cdc.flows.schemas import check_registry
from airflow_cdc.flows.stages import check_stages
from airflow_cdc.java import java_command
from airflow_cdc.kinds import config_rules_of, no_recovery

JAVA_FLOOR = 17
_DOUBTED = "Do nothing if such characters are rare: their events become dead letters, whose rows are read again."


def doctor_installation(*, mirrors: bool = True) -> list[Check]:
    """What this machine must have: matching pyspark wheels, Java, spark-submit; nothing if no pipeline has a sink."""
    return [_pyspark(), _java(), _spark_submit()] if mirrors else []


def doctor_pipeline(run: Run) -> list[Check]:
    """Connections, privileges, the log's and the connector's settings of one pipeline. Changes nothing."""
    return [check for part in _PARTS for check in guarded(part, run)]


def _pyspark() -> Check:
    spark, client = (_version(name) for name in ("pyspark", "pyspark-client"))
    good = spark == client and spark is not None
    todo = "" if good else "Both wheels write site-packages/pyspark: install the same version of both."
    return Check("installation", "pyspark", "ok" if good else "bad", f"pyspark {spark}, pyspark-client {client}", todo)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _java() -> Check:
    binary = java_command()
    todo = f"Install Java {JAVA_FLOOR} or newer and set JAVA_HOME."
    if not binary:
        return Check("installation", "java", "bad", "no java on PATH or in JAVA_HOME", todo)
    version = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    quoted = version.split('"')
    major = int(quoted[1].split(".")[0]) if len(quoted) > 1 and quoted[1].split(".")[0].isdigit() else 0
    good = major >= JAVA_FLOOR
    return Check(
        "installation",
        "java",
        "ok" if good else "bad",
        version.splitlines()[0] if version else "?",
        "" if good else todo,
    )


def _spark_submit() -> Check:
    path = shutil.which("spark-submit")
    todo = "" if path else "Put the folder of spark-submit (the virtual environment's bin) on PATH."
    return Check("installation", "spark-submit", "ok" if path else "bad", path or "not on PATH", todo)


def guarded(part: Callable[[Run], Iterator[Check]], run: Run) -> list[Check]:
    """Report a part that cannot be read as unknown, and continue with the rest."""
    name = part.__name__.removeprefix("check").strip("_")
    try:
        return list(part(run))
    except Exception as raised:
        error = foreseen(raised, f"checking {name}")
        state = "unknown" if error.exit_status == 3 else "bad"
        where = f" ({error.where})" if error.where else ""
        return [Check(run.pipeline.name, name, state, f"{error.what}{where}", error.todo)]


def check_source(run: Run) -> Iterator[Check]:
    hold = run.pipeline.policy.hold.mode != "off"
    unreadable = no_recovery(run.pipeline)
    tables = run.pipeline.source.tables
    yield from run.clients.source.checks(run.pipeline.name, tables, hold=hold, unreadable=unreadable)


def check_throttle(run: Run) -> Iterator[Check]:
    """Whether the source can be asked what policy.throttle limits, and whether a read would wait now."""
    limits = run.pipeline.policy.throttle
    if not limits.waits:
        return
    load = run.clients.source.load(limits)
    reason = too_busy(limits, load)
    todo = "A read would wait now. If that is how busy the source always is, raise the limit." if reason else ""
    yield Check(run.pipeline.name, "throttle", "warn" if reason else "ok", reason or figures(limits, load), todo)


def check_replicas(run: Run) -> Iterator[Check]:
    """Whether the declared replicas could stand in for the source after a purge."""
    for conn_id, replica in named_replicas(run).items():
        try:
            faults = replica.standing_faults(conn_id)
        except CdcError as error:
            yield Check(run.pipeline.name, f"replica {conn_id}", "unknown", str(error), error.todo)
            continue
        text = "; ".join(faults) or "could stand in for the source"
        todo = (
            "Fix it, or remove it from source.replicas: in its present state it cannot stand in for the source."
            if faults
            else ""
        )
        yield Check(run.pipeline.name, f"replica {conn_id}", "warn" if faults else "ok", text, todo)


def _tables(run: Run) -> Iterator[Check]:
    definitions = defined(run)
    keyless = [name for name, table in definitions.items() if not table.key]
    yield Check(
        run.pipeline.name,
        "tables",
        "ok",
        f"{len(definitions)} tables" + (f", without key: {', '.join(keyless)}" if keyless else ""),
    )


def _connector(run: Run) -> Iterator[Check]:
    subject, name = run.pipeline.name, run.pipeline.connector.name
    facts = run.clients.connector.facts(name)
    running = facts.state == "RUNNING" and all(task.state == "RUNNING" for task in facts.tasks)
    todo = "" if running else f"Ask `airflow cdc diagnose {subject}` why."
    yield Check(subject, "connector", "ok" if running else "warn", f"{name} {facts.state}", todo)
    capture = settings(run)
    yield from capture.reading_checks(subject)
    todo = "Remove it: a connector that skips a gap leaves deleted rows in the sink." if capture.healing else ""
    yield _rows(run, capture)
    yield Check(subject, "self-healing", "bad" if capture.healing else "ok", ", ".join(capture.healing) or "none", todo)


def _rows(run: Run, capture: CaptureSettings) -> Check:
    """Whether rows can be taken from the events; if not, that is a fault only for a pipeline that has a sink."""
    error = capture.rows_refused
    if error is None:
        return Check(run.pipeline.name, "rows", "ok", "can be taken from the connector's events")
    if not run.pipeline.has_sink:
        note = "diagnosis, watch, hold and offset moves need no rows"
        return Check(run.pipeline.name, "rows", "ok", f"refused, because {error.what}; {note}")
    return Check(run.pipeline.name, "rows", "bad", f"refused, because {error.what}", error.todo)


def _rows_in_events(run: Run) -> Iterator[Check]:
    """Whether NULL arrives as NULL; if not, the first apply after a recovery would refuse the tables."""
    subject, definitions = run.pipeline.name, captured(run)
    capture = settings(run)
    if capture.rows_refused or capture.observed_only:
        return
    fault = fault_of(run, definitions) if run.pipeline.is_applied else None
    if fault is None:
        yield Check(subject, "NULL in events", "ok", "NULL arrives as NULL, or no nullable column has a default")
        return
    settable = bool(fault.settings) and run.pipeline.policy.set_converter
    note = "; the next recovery sets it (policy.set_converter)" if settable else ""
    yield Check(subject, "NULL in events", "warn" if settable else "bad", fault.what + note, fault.todo)


def _years(run: Run) -> Iterator[Check]:
    """By default the connector sends years below 100 as 1970 to 2069, and nothing distinguishes them afterwards."""
    dated = [name for table in captured(run).values() for name in config_rules_of(run.pipeline).dated_columns(table)]
    if not dated:
        return
    adjusted = settings(run).years_adjusted
    todo = "Set enable.time.adjuster=false, unless no date of these columns is before the year 100." if adjusted else ""
    text = f"enable.time.adjuster={str(adjusted).lower()}; {', '.join(dated)}"
    yield Check(run.pipeline.name, "years below 100", "warn" if adjusted else "ok", text, todo)


def _carried(run: Run) -> Iterator[Check]:
    """Whether the connector's events carry the tables' rows: by types, character sets, settings, and then the data."""
    subject, tables, capture = run.pipeline.name, dict(captured(run)), settings(run)
    if capture.rows_refused or capture.observed_only:
        return
    asked = asked_of(run, list(tables))
    for table in tables.values():
        for error in refusals(asked, table):
            yield Check(subject, "values", "bad", f"{error.what} ({error.where})", error.todo)
    if left_out := sorted(f"{name}.{column}" for name, table in tables.items() for column in table.left_out):
        yield Check(subject, "values", "ok", f"not mirrored, as the connector leaves them out: {', '.join(left_out)}")
    if doubted := sorted(
        name for table in tables.values() for name in config_rules_of(run.pipeline).doubted_columns(table)
    ):
        yield Check(
            subject, "values", "warn", f"the connector decodes some characters wrongly: {', '.join(doubted)}", _DOUBTED
        )
    looked_through = dict(look_through(run, tables.values()))
    for name in tables:
        if name not in looked_through:
            yield Check(subject, "values", "warn", f"{name} is too large to be searched in a few seconds")
        for look in looked_through.get(name, ()):
            yield Check(subject, "values", "bad", f"{look.what} ({look.place})", look.todo)


def _events(run: Run) -> Iterator[Check]:
    """What the newest record of each topic looks like: a worker's converter, which nobody can ask, shows there alone."""
    if run.pipeline.has_sink:
        yield from look_at_events(run)


def _transport(run: Run) -> Iterator[Check]:
    try:
        topics = sorted(set(topic_names(run, run.pipeline.source.tables).values()))
    except ConfigError as error:
        yield Check(run.pipeline.name, "transport", "warn", f"topics: unknown, because {error.what}", error.todo)
        return
    states = run.clients.transport.topic_states(topics)
    yield Check(run.pipeline.name, "transport", "ok", f"{len(states)} of {len(topics)} topics exist")


def _control(run: Run) -> Iterator[Check]:
    control = run.clients.control
    yield Check(run.pipeline.name, "control", "ok", f"{control.where}, epoch {control.facts().epoch}")


def _sink(run: Run) -> Iterator[Check]:
    if not run.pipeline.has_sink:
        yield Check(run.pipeline.name, "sink", "ok", "none: diagnosis, watch and offset moves only")
        return
    places = places_of(run, run.pipeline.source.tables)
    facts = {table: run.clients.sink.facts(*place) for table, place in places.items()}
    there = [table for table, known in facts.items() if known.exists]
    yield Check(run.pipeline.name, "sink", "ok", f"{len(there)} of {len(places)} tables exist")
    theirs = [table for table, known in facts.items() if known.other] if run.pipeline.is_applied else []
    if theirs:
        yield Check(
            run.pipeline.name,
            "sink's writers",
            "warn",
            f"another program wrote to {', '.join(theirs)}",
            "Stop it, or choose a new namespace: the next recovery of a table replaces what it wrote.",
        )


_PARTS = (
    check_source,
    check_throttle,
    check_replicas,
    _tables,
    _connector,
    _rows_in_events,
    _years,
    _carried,
    _events,
    check_registry,
    _transport,
    _sink,
    check_feeder,
    check_stages,
    check_topics,
    _control,
)
