"""Check that the connector carries a NULL as NULL, and if necessary set its converter, before rows are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_cdc.core.capture import NullFault
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.table import Table
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import config_rules_of


def fault_of(run: Run, definitions: Mapping[str, Table]) -> NullFault | None:
    """What the connector's converter does to the NULLs of these tables now; None if nothing."""
    _definitions, defaults = run.clients.source.definitions_and_defaults(list(definitions))
    config = run.clients.connector.raw_config(run.pipeline.connector.name)
    return config_rules_of(run.pipeline).null_fault(config, definitions, defaults)


def require_nulls(run: Run, definitions: Mapping[str, Table]) -> None:
    """Raise ConfigError if NULLs would arrive as defaults and this run may not set the converter."""
    fault = fault_of(run, definitions)
    if fault is not None and not _may_set(run, fault):
        raise ConfigError(fault.what, where=run.where, todo=fault.todo)


def null_refusals(run: Run, definitions: Mapping[str, Table]) -> Iterator[tuple[str, ConfigError]]:
    """Each table whose NULLs would arrive as defaults although this run may not change that, and its refusal.

    Of that table alone: where no setting ends it, the columns of one table say nothing about the others.
    """
    _definitions, defaults = run.clients.source.definitions_and_defaults(list(definitions))
    rules, config = config_rules_of(run.pipeline), run.clients.connector.raw_config(run.pipeline.connector.name)
    fault = rules.null_fault(config, definitions, defaults)
    if fault is None or _may_set(run, fault):
        return
    for name, table in definitions.items():
        own = rules.null_fault(config, {name: table}, {name: defaults[name]} if name in defaults else {})
        if own is not None:
            yield name, ConfigError(own.what, where=f"table {name}", todo=own.todo)


def _may_set(run: Run, fault: NullFault) -> bool:
    """Whether settings of the connector end it, and this run may set them."""
    return bool(fault.settings) and run.pipeline.policy.set_converter


def set_converter(run: Run, tables: Sequence[str] = ()) -> Sequence[str]:
    """Make the stopped connector carry NULL as NULL from now on; returns the changed settings.

    `tables`: those that are recovered, by default all. The settings stay after the recovery: without them the next apply would
    refuse the tables.
    """
    name = run.pipeline.connector.name
    config = run.clients.connector.raw_config(name)
    if not config_rules_of(run.pipeline).may_replace_nulls(config):
        return ()
    definitions = captured(run, tables)
    fault = fault_of(run, definitions)
    if fault is None:
        return ()
    require_nulls(run, definitions)
    run.clients.connector.change_config(name, config, {**config, **fault.settings})
    return tuple(fault.settings)
