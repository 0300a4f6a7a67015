"""The first keys that a comparison found to differ, with both rows, for a person to look at."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from airflow_cdc.core.codec import plain
from airflow_cdc.core.errors import CdcError, SinkError
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.row_diff import SHOWN, RowPair, rows_file
from airflow_cdc.flows.checks import store_json
from airflow_cdc.flows.run import Run, now_iso
from airflow_cdc.spark_apps.canonical.spark import key_text
from airflow_cdc.spark_apps.compare.scan import Outcome
from airflow_cdc.spark_apps.driver.app import explained
from airflow_cdc.spark_apps.driver.session import SMALL_BATCH, sibling
from airflow_cdc.spark_apps.driver.sql import own_name, quote_ident

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.spark_apps.ports import RowReader

log = logging.getLogger("airflow_cdc.verify")

KINDS = ("different", "missing", "ghosts")
# column → (its text, cut; the checksum of all of it)
Texts = dict[str, tuple[str | None, str | None]]


def keep_rows(run: Run, reader: RowReader, spark: SparkSession, outcome: Outcome) -> None:
    """Store the rows of the sampled keys beside the report, where the policy allows it (`report_rows`).

    A table without a key has none. Rows that can't be read are logged; the verdict does not depend on them.
    """
    table, samples = outcome.subject.table, outcome.tally.samples
    kinds = {key: kind for kind in KINDS for key in samples.get(kind, ())}
    if table.keyless or not kinds or not run.pipeline.policy.report_rows:
        return
    try:
        with explained(
            SinkError, "read both rows", where=f"table {table.full_name}", todo="The keys are in the report."
        ):
            pairs = _pairs(reader, spark, outcome, kinds)
            store_json(run, rows_file(table.full_name), [plain(pair) for pair in pairs])
    except CdcError as error:
        log.warning("%s", error)


def _pairs(reader: RowReader, spark: SparkSession, outcome: Outcome, kinds: Mapping[str, str]) -> list[RowPair]:
    table, at = outcome.subject.table, now_iso()
    rows = reader.rows_of_keys(sibling(spark, SMALL_BATCH), table, list(kinds), at=outcome.subject.position)
    ours = _texts(rows, table, kinds)
    theirs = _texts(outcome.subject.sink.rows_of_keys(list(kinds)), table, kinds)
    return [_pair(kind, key, ours.get(key), theirs.get(key), at) for key, kind in kinds.items()]


def _pair(kind: str, key: str, source: Texts | None, sink: Texts | None, at: str) -> RowPair:
    differ = tuple(name for name in source if source[name][1] != sink[name][1]) if source and sink else ()
    return RowPair(kind, key, _shown(source), _shown(sink), differ, at)


def _shown(row: Texts | None) -> dict[str, str | None] | None:
    return None if row is None else {name: text for name, (text, _) in row.items()}


def _texts(rows: DataFrame, table: Table, keys: Mapping[str, object]) -> dict[str, Texts]:
    """Key → each column's text, of the rows under these keys. A case-insensitive source also finds other keys' rows."""
    names = [column.name for column in table.mirrored]
    binary = {name.lower() for name, kind in rows.dtypes if kind == "binary"}
    whole = [f"{'hex' if n.lower() in binary else 'string'}({quote_ident(n)})" for n in names]
    parts = [part for text in whole for part in (f"substring({text}, 1, {SHOWN})", f"md5({text})")]
    key = quote_ident(own_name("key"))
    texts = rows.selectExpr(f"{key_text(table)} AS {key}", *parts)
    pairs = texts.where(fn.col(key).isin(list(keys))).collect()
    return {row[0]: {name: (row[1 + 2 * n], row[2 + 2 * n]) for n, name in enumerate(names)} for row in pairs}
