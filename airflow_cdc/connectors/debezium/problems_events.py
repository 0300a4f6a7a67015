"""Predicates about what the connector's events carry: settings by which they lack changes, or say other values than the rows.

What is refused when rows are read or applied is known from the settings and the tables' definitions, so it is said before
a recovery begins.
"""

from __future__ import annotations

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.null_defaults import NullFault, null_fault
from airflow_cdc.core.diagnosis.evidence import Evidence, connector_of, evidence
from airflow_cdc.core.diagnosis.observation import Observation, SchemaFacts
from airflow_cdc.core.errors import CdcError

_CONFIG = "connector config"
_SINK_IS_OURS = "cdc_apply"


def setting_refused(obs: Observation) -> Evidence | None:
    """A setting with which no table of this connector can be followed."""
    error = _settings_error(obs)
    return None if error is None else evidence(obs, _CONFIG, {"refused": str(error)})


def tables_refused(obs: Observation) -> Evidence | None:
    """Tables whose rows the connector filters, masks, keys or routes in a way that cannot be followed (INV 21)."""
    errors = table_errors(obs)
    return evidence(obs, _CONFIG, {name: str(error) for name, error in errors.items()}) if errors else None


def nulls_replaced(obs: Observation) -> Evidence | None:
    """Columns whose NULL arrives as their default: apply refuses their tables."""
    fault = nulls_fault(obs)
    if fault is None:
        return None
    columns = {f"column {n}": name for n, name in enumerate(fault.columns, 1)}
    return evidence(obs, _CONFIG, {**columns, "to do": fault.todo})


def table_errors(obs: Observation) -> dict[str, CdcError]:
    """Table → why its events cannot be followed; {} also where settings or definitions are not known."""
    settings = _settings(obs)
    if settings is None or settings.observed_only or not isinstance(obs.schema, SchemaFacts):
        return {}
    errors = {}
    for name, table in obs.schema.definitions.items():
        try:
            settings.check_table(table)
        except CdcError as error:
            errors[name] = error
    return errors


def nulls_fault(obs: Observation) -> NullFault | None:
    """What the converter does to NULLs of the declared tables; None where another writer fills the sink."""
    connector, schema = connector_of(obs), obs.schema
    if connector is None or not isinstance(schema, SchemaFacts) or obs.pipeline.sink.writer != _SINK_IS_OURS:
        return None
    settings = _settings(obs)
    if settings is None or settings.observed_only:
        return None
    return null_fault(connector.config, schema.definitions, schema.defaults)


def events_hindrance(obs: Observation) -> str:
    """Why no recovery may read these tables: their events could not be applied afterwards; "" if they can."""
    errors = [error for error in (_settings_error(obs), *table_errors(obs).values()) if error is not None]
    fault = nulls_fault(obs)
    settable = fault is not None and bool(fault.settings) and obs.pipeline.policy.set_converter
    nulls = [] if fault is None or settable else [f"{fault.what}. {fault.todo}"]
    return "; ".join([*map(str, errors), *nulls])


def converter_note(obs: Observation) -> str:
    """What a recovery will set on the connector for good; "" if nothing."""
    fault = nulls_fault(obs)
    if fault is None or not fault.settings or not obs.pipeline.policy.set_converter:
        return ""
    return (
        f"It sets {', '.join(f'{k}={v}' for k, v in fault.settings.items())} on the connector, for good: {fault.what}."
    )


def _settings(obs: Observation) -> ConnectorSettings | None:
    connector = connector_of(obs)
    if connector is None or _settings_error(obs) is not None:
        return None
    return ConnectorSettings.from_config(connector.config)


def _settings_error(obs: Observation) -> CdcError | None:
    connector = connector_of(obs)
    if connector is None:
        return None
    try:
        ConnectorSettings.from_config(connector.config)
    except CdcError as error:
        return error
    return None
