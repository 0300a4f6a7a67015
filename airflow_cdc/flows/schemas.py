"""The schema registry of a connector's records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Protocol, runtime_checkable

from airflow_cdc.core.check import Check
from airflow_cdc.core.endpoint import secrets_in
from airflow_cdc.core.errors import CdcError, ConfigError, needs
from airflow_cdc.core.secrets import remember
from airflow_cdc.core.topics import NewestRecord
from airflow_cdc.events.record import SchemaId
from airflow_cdc.events.registry import RecordSettings, Registry
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import TRANSPORTS, config_rules_of

_UNNAMED = "the connector writes its records with schemas of a registry, and its settings name none that can be used"
_NAME_IT = "Add `registry: CONN_ID` to transport: an Airflow connection of type cdc_schema_registry."
_LOST = (
    "Such records cannot be read. If the registry lost its storage, restore its schemas from a backup; if it is another"
    " one, name the right one by transport.registry. Else recover the tables."
)


@runtime_checkable
class NamesSchemas(Protocol):
    """A connector's rules (core.capture.ConfigRules) for records that are written with schemas of a registry."""

    def schemas_of(self, config: Mapping[str, str], table: str, record: NewestRecord) -> Sequence[SchemaId]:
        """The ids of the schemas with which a record of the table's topic was written."""
        ...


def registry_of(run: Run, capture: object) -> Registry | None:
    """The registry without whose schemas the connector's records cannot be read; None if they can.

    It is the one that `transport.registry` names, else the one of the connector's own settings. Raises ConfigError if neither
    names one, and where the package is missing that reads Avro.
    """
    if not isinstance(capture, RecordSettings) or not capture.needs_registry:
        return None
    if capture.needs_avro:
        with needs("avro", where=run.where):
            import_module("fastavro")
    if run.clients.registry is not None:
        return run.clients.registry
    kind, own = TRANSPORTS[run.pipeline.transport.kind].registry, capture.registry
    if kind is None or own is None:
        raise ConfigError(_UNNAMED, where=run.where, todo=_NAME_IT)
    endpoint = kind.endpoint.load()(url=own.url, user=own.user, password=own.password)
    remember(secrets_in(endpoint))
    made: Registry = kind.client.load()(endpoint)
    return made


def check_registry(run: Run) -> Iterator[Check]:
    """Whether the registry answers, and knows the schemas of each topic's newest record; nothing where none is needed."""
    capture_rules, name = config_rules_of(run.pipeline), run.pipeline.connector.name
    config = run.clients.connector.raw_config(name)
    capture = capture_rules.capture(config)
    if not run.pipeline.has_sink or capture.rows_refused:
        return
    subject = run.pipeline.name
    try:
        registry = registry_of(run, capture)
        if registry is None:
            return
        registry.reach()
    except CdcError as error:
        yield Check(subject, "registry", "bad", f"{error.what} ({error.where})", error.todo)
        return
    yield from _known(run, registry, config)


def _known(run: Run, registry: Registry, config: Mapping[str, str]) -> Iterator[Check]:
    rules = config_rules_of(run.pipeline)
    if not isinstance(rules, NamesSchemas):
        return
    capture = rules.capture(config)
    of_table = {table: capture.topic_of(table) for table in run.pipeline.source.tables}
    newest = run.clients.transport.newest(sorted(set(of_table.values())))
    ids = {
        table: rules.schemas_of(config, table, newest[topic]) for table, topic in of_table.items() if topic in newest
    }
    known = registry.texts({one for own in ids.values() for one in own})
    lacking = {table: [one for one in own if one not in known] for table, own in ids.items()}
    for table, missing in lacking.items():
        if missing:
            what = ", ".join(f"{one.kind} {one.number}" for one in missing)
            said = f"{registry.where} does not know the schemas of the newest record of {table}: {what}"
            yield Check(run.pipeline.name, "registry", "bad", said, _LOST)
    if not any(lacking.values()):
        text = f"{registry.where} knows the schemas of the newest records" if ids else f"{registry.where} answers"
        yield Check(run.pipeline.name, "registry", "ok", text)
