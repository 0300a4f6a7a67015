"""Predicates about the connector's events: settings that make them lack changes, or differ from the rows.

Whatever reading or applying rows would refuse is known from the settings and the tables' definitions, so it is reported
before a recovery begins.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.null_defaults import NullFault, null_fault
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.observation import SchemaFacts
from airflow_cdc.core.problem import AnyCase, Evidence
from airflow_cdc.decisions.diagnosis.evidence import evidence

_CONFIG = "connector config"
_KEEP_DELETES = (
    "Set delete.tombstone.handling.mode=rewrite on the transform (before Debezium 2.5: delete.handling.mode=rewrite), and"
    " no d in skipped.operations; then recover, as earlier deletes are in no topic."
)


def other_connector(case: AnyCase) -> Evidence | None:
    """A connector that is none of Debezium's for MySQL, MariaDB or PostgreSQL."""
    settings = _settings(case)
    if settings is None or settings.known_kind:
        return None
    return evidence(case, _CONFIG, {"connector.class": settings.kind or "nothing"})


def rows_refused(case: AnyCase) -> Evidence | None:
    """The pipeline has a sink, and no table's rows can be taken from the connector's events (INV 21)."""
    error = _rows_error(case) if case.seen.pipeline.has_sink else None
    return None if error is None else evidence(case, _CONFIG, {"rows": f"refused, because {error}"})


def tables_refused(case: AnyCase) -> Evidence | None:
    """Tables whose rows the connector filters, masks, keys or routes in a way that cannot be followed (INV 21)."""
    errors = table_errors(case) if case.seen.pipeline.has_sink else {}
    return evidence(case, _CONFIG, {name: str(error) for name, error in errors.items()}) if errors else None


def deletes_dropped(case: AnyCase) -> Evidence | None:
    """No delete reaches the topics, whoever reads them."""
    settings = _settings(case)
    lossy = settings.deletes_lost() if settings else ()
    if not lossy:
        return None
    return evidence(case, _CONFIG, {f"setting {n}": one for n, one in enumerate(lossy, 1)} | {"to do": _KEEP_DELETES})


def deletes_remark(case: AnyCase) -> Iterator[str]:
    """Settings that lose deletes in one version of Debezium and not in another: Connect does not show which it runs."""
    settings = _settings(case)
    for one in settings.deletes_lost(surely=False) if settings else ():
        yield (
            f"deletes: with {one}, Debezium before 2.5 sends nothing for a delete, and from 3.0 on the older settings count"
            f" for nothing. {_KEEP_DELETES}"
        )


def rows_remark(case: AnyCase) -> Iterator[str]:
    """What is said of rows beside any diagnosis: why they can't be taken from the events, whatever else holds."""
    if (error := _rows_error(case)) is not None:
        yield f"rows: refused, because {error}"
    for name, one in table_errors(case).items():
        yield f"rows of {name}: refused, because {one}"


def nulls_replaced(case: AnyCase) -> Evidence | None:
    """Columns whose NULL arrives as their default: apply refuses their tables."""
    fault = nulls_fault(case)
    if fault is None:
        return None
    columns = {f"column {n}": name for n, name in enumerate(fault.columns, 1)}
    return evidence(case, _CONFIG, {**columns, "to do": fault.todo})


def table_errors(case: AnyCase) -> dict[str, CdcError]:
    """Table → why its events cannot be followed; also {} where no table's can, or where definitions are unknown."""
    settings = _settings(case)
    if settings is None or settings.refusals or not isinstance(case.seen.schema, SchemaFacts):
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
    if connector is None or not isinstance(schema, SchemaFacts) or not case.seen.pipeline.is_applied:
        return None
    settings = _settings(case)
    if settings is None or settings.refusals:
        return None
    carried = {name: settings.carried(table) for name, table in schema.definitions.items()}
    return null_fault(connector.config, carried, schema.defaults)


def events_blocker(case: AnyCase) -> str:
    """Why no recovery may read any table: their events could not be applied afterwards; "" if some can.

    Tables that can't be followed beside others that can are left to `decide`: it looks at those that were asked for, and
    names the way on for the rest (flows.recoverable). Blocked here, that way would lead to the same refusal.
    """
    errors, schema, fault = table_errors(case), case.seen.schema, nulls_fault(case)
    if fault is not None and fault.settings and case.seen.pipeline.policy.set_converter:
        fault = None
    lossy = fault.tables if fault is not None else frozenset[str]()
    some_can = isinstance(schema, SchemaFacts) and len({*errors, *lossy}) < len(schema.definitions)
    said = [error for error in (_rows_error(case), *(() if some_can else errors.values())) if error is not None]
    nulls = [] if fault is None or some_can else [f"{fault.what}. {fault.todo}"]
    return "; ".join([*map(str, said), *nulls])


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


def _rows_error(case: AnyCase) -> CdcError | None:
    settings = _settings(case)
    return settings.rows_refused if settings else None
