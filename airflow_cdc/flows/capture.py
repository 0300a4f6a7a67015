"""What a pipeline captures: its tables' definitions, the connector's settings, and the topic of each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_cdc.core.capture import CaptureSettings
from airflow_cdc.core.errors import ConnectorError, SourceError
from airflow_cdc.core.observation import Capture, ConnectorFacts
from airflow_cdc.core.table import Table
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import config_rules_of


def captured(run: Run, tables: Sequence[str] = ()) -> Mapping[str, Table]:
    """The current definitions of the pipeline's tables, of what the connector carries. Raises SourceError for a missing one.

    A column that the connector leaves out of its events is left out of the mirror.
    """
    return carried(run, defined(run, tables))


def carried(run: Run, definitions: Mapping[str, Table]) -> Mapping[str, Table]:
    """The definitions without what the connector leaves out of its events."""
    capture = settings(run)
    return {name: capture.carried(table) for name, table in definitions.items()}


def defined(run: Run, tables: Sequence[str] = ()) -> Mapping[str, Table]:
    """The source's definitions, whole, as the connector's own definitions have them. Raises SourceError for a missing one."""
    names = list(tables or run.pipeline.source.tables)
    definitions = present(run, names)
    if missing := sorted(set(names) - set(definitions)):
        raise missing_error(run, ", ".join(missing))
    return definitions


def present(run: Run, tables: Sequence[str]) -> Mapping[str, Table]:
    """The source's definitions, whole, without tables that it does not have now."""
    return run.clients.source.definitions(list(tables)) if tables else {}


def missing_error(run: Run, tables: str) -> SourceError:
    """The error about tables that the source does not have, or that its user may not see."""
    return SourceError(
        f"the source has no table {tables}",
        where=run.where,
        todo="Correct source.tables in pipelines.yaml, or grant SELECT on it. If it was dropped while a recovery of it "
        'is open: airflow cdc abandon PIPELINE --table TABLE --reason "…".',
    )


def settings(run: Run) -> CaptureSettings:
    """The connector's own configuration, parsed for decoding and routing."""
    return config_rules_of(run.pipeline).capture(run.clients.connector.raw_config(run.pipeline.connector.name))


def followed(run: Run, definitions: Mapping[str, Table]) -> Mapping[str, Table]:
    """`carried`, after checking that the connector sends these tables' rows unchanged (INV 21, 31).

    Call it before rows are read directly from the source: values that the connector masks must never be written.
    Raises SchemaError or ConfigError, which names the setting.
    """
    capture = settings(run)
    mirrored = {name: capture.carried(table) for name, table in definitions.items()}
    for table in mirrored.values():
        capture.check_table(table)
    return mirrored


def topic_names(run: Run, tables: Sequence[str]) -> dict[str, str]:
    """Table → topic, by the connector's prefix and routing."""
    capture = settings(run)
    return {table: capture.topic_of(table) for table in tables}


def capture_in(facts: ConnectorFacts) -> Capture:
    """The connector's settings. Raises ConfigError or SchemaError for unsupported ones."""
    if facts.capture is None:
        raise facts.capture_fault or ConnectorError(
            "the connector's settings were not read", todo="See that the connector can be asked, then look again."
        )
    return facts.capture
