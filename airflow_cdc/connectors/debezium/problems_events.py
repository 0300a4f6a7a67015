"""Predicates about the connector's events: settings that make them lack changes, or differ from the rows.

Whatever reading or applying rows would refuse is known from the settings and the tables' definitions, so it is reported
before a recovery begins.
"""

from __future__ import annotations

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.null_defaults import NullFault, null_fault
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.observation import SchemaFacts
from airflow_cdc.core.problem import AnyCase, Evidence
from airflow_cdc.decisions.diagnosis.evidence import evidence

_CONFIG = "connector config"
_SINK_IS_OURS = "cdc_apply"


def setting_refused(case: AnyCase) -> Evidence | None:
    """A setting with which no table of this connector can be followed."""
    error = _settings_error(case)
    return None if error is None else evidence(case, _CONFIG, {"refused": str(error)})


def tables_refused(case: AnyCase) -> Evidence | None:
    """Tables whose rows the connector filters, masks, keys or routes in a way that cannot be followed (INV 21)."""
    errors = table_errors(case)
    return evidence(case, _CONFIG, {name: str(error) for name, error in errors.items()}) if errors else None


def nulls_replaced(case: AnyCase) -> Evidence | None:
    """Columns whose NULL arrives as their default: apply refuses their tables."""
    fault = nulls_fault(case)
    if fault is None:
        return None
    columns = {f"column {n}": name for n, name in enumerate(fault.columns, 1)}
    return evidence(case, _CONFIG, {**columns, "to do": fault.todo})


def table_errors(case: AnyCase) -> dict[str, CdcError]:
    """Table → why its events cannot be followed; also {} where settings or definitions are unknown."""
    settings = _settings(case)
    if settings is None or settings.observed_only or not isinstance(case.seen.schema, SchemaFacts):
        return {}
    errors = {}
    for name, table in case.seen.schema.definitions.items():
        try:
            settings.check_table(table)
        except CdcError as error:
            errors[name] = error
    return errors


def nulls_fault(case: AnyCase) -> NullFault | None:
    """What the converter does to NULLs of the declared tables; None where another writer fills the sink."""
    connector, schema = case.connector, case.seen.schema
    if connector is None or not isinstance(schema, SchemaFacts) or case.seen.pipeline.sink.writer != _SINK_IS_OURS:
        return None
    settings = _settings(case)
    if settings is None or settings.observed_only:
        return None
    return null_fault(connector.config, schema.definitions, schema.defaults)


def events_blocker(case: AnyCase) -> str:
    """Why no recovery may read these tables: their events could not be applied afterwards; "" if they can."""
    errors = [error for error in (_settings_error(case), *table_errors(case).values()) if error is not None]
    fault = nulls_fault(case)
    settable = fault is not None and bool(fault.settings) and case.seen.pipeline.policy.set_converter
    nulls = [] if fault is None or settable else [f"{fault.what}. {fault.todo}"]
    return "; ".join([*map(str, errors), *nulls])


def converter_note(case: AnyCase) -> str:
    """What a recovery will set on the connector permanently; "" if nothing."""
    fault = nulls_fault(case)
    if fault is None or not fault.settings or not case.seen.pipeline.policy.set_converter:
        return ""
    return (
        f"It sets {', '.join(f'{k}={v}' for k, v in fault.settings.items())} on the connector, for good: {fault.what}."
    )


def _settings(case: AnyCase) -> ConnectorSettings | None:
    capture = case.connector.capture if case.connector else None
    return capture if isinstance(capture, ConnectorSettings) else None


def _settings_error(case: AnyCase) -> CdcError | None:
    return case.connector.capture_fault if case.connector else None
