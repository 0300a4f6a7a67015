"""Which changes of a table's columns the documents of an index can follow without being written again."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_cdc.core.table import Table
from airflow_cdc.decisions.apply.schema_change import SchemaChange, check_added, refused
from airflow_cdc.decisions.apply.start import Start
from airflow_cdc.spark_apps.ports import Defaults
from airflow_cdc.spark_apps.types import arrow_type, is_decimal, sink_type


def fitted(columns: Mapping[str, str], start: Start, defaults: Defaults | None) -> SchemaChange:
    """The change from an index's columns (name → Spark SQL type) to those of the start's table.

    Raises RereadNeededError for a change that needs the documents to be written again.
    """
    table, change = start.table, start.change
    types = {column.name: sink_type(column) for column in table.mirrored}
    for name in columns.keys() - types.keys():
        raise refused(table, f"column {name} was dropped or renamed, and documents keep what they hold in it")
    if change is not None and change.filled:
        raise refused(table, f"column {', '.join(change.filled)} was added with a value in old rows")
    added = tuple(name for name in types if name not in columns)
    _check_added(table, added, change, defaults)
    names = [name for name, kind in types.items() if name in columns and columns[name] != kind]
    for name in names:
        if not _widens(columns[name], types[name]):
            raise refused(table, f"column {name} is {types[name]} now, which its {columns[name]} values are not")
    known = change or SchemaChange()
    return SchemaChange(added, tuple(sorted({*names, *known.widened})), never_null=known.never_null)


def _check_added(
    table: Table, added: tuple[str, ...], change: SchemaChange | None, defaults: Mapping[str, str | None] | None
) -> None:
    if change is None:
        for name in added:
            check_added(table, table.column(name), defaults)
        return
    missing = set(added) - set(change.added)
    if missing:
        raise refused(table, f"the index has no column {', '.join(sorted(missing))}, and no DDL added it")


def _widens(old: str, wanted: str) -> bool:
    """Whether what is stored for values of one type is also right for the other."""
    if is_decimal(old) and is_decimal(wanted):
        before, after = arrow_type(old), arrow_type(wanted)
        return bool(before.scale == after.scale and before.precision <= after.precision)
    return (old, wanted) == ("int", "bigint")
