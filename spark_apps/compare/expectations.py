"""Great Expectations on one pinned snapshot of a stage: what every reader may rely on, as a suite with Data Docs.

The verification has already compared every row; the suite states the result in terms that readers of the table know,
and its Data Docs page is for them. A failed suite blocks publishing. Spark counts the facts a suite needs once
(compare/stage_facts.py), and the suite runs over these facts, one row per table.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_cdc.spark_apps.compare.scan import Outcome
from airflow_cdc.spark_apps.compare.stage_facts import Asked, StageFacts, count_facts
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from great_expectations.core.validation_definition import ValidationDefinition
    from great_expectations.data_context import AbstractDataContext
    from great_expectations.expectations.expectation import Expectation
    from pandas import DataFrame as FactRow
    from pyspark.sql import DataFrame

DATA_DOCS = "data_docs"
# columns of the one row of facts
ROWS = "rows"
COLUMNS = "columns, in order"
REPEATED = "rows whose key another row has"
PROVEN = "Not counted again: equal digests of every row prove it, because the source's key is unique."


@dataclass(frozen=True, slots=True)
class Expected:
    """What a snapshot of a sink table must hold.

    Attributes:
        name: "schema.table"; `snapshot_id`: the snapshot that is checked.
        columns: name → Spark SQL type, in order.
        not_null: columns in which NULL is an error (the key, and what the source declares NOT NULL).
        rows: rows of the source; `tolerance`: rows in flight during the comparison, by which the count may differ.
        key: columns that are unique together; empty for a table without a key.
        key_proven: whether equal digests already prove that the key is unique, so that it is not counted again.
    """

    name: str
    snapshot_id: int
    columns: dict[str, str]
    not_null: tuple[str, ...]
    rows: int
    tolerance: int = 0
    key: tuple[str, ...] = ()
    key_proven: bool = False

    @classmethod
    def of(cls, outcome: Outcome) -> Expected:
        """What a compared snapshot must hold, from the source's definition and row count."""
        table = outcome.subject.table
        return cls(
            name=table.full_name,
            snapshot_id=outcome.subject.sink.version,
            columns={column.name: sink_type(column) for column in table.mirrored},
            not_null=tuple(c.name for c in table.mirrored if not c.nullable or c.name in table.key),
            rows=outcome.source_rows,
            tolerance=outcome.tally.unsettled,
            key=table.key,
            key_proven=outcome.equal_by_digests,
        )


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The result of one table's suite; `failures` are sentences, `checks` is the number of expectations."""

    name: str
    success: bool
    checks: int
    failures: tuple[str, ...] = ()


def expectations(expected: Expected) -> list[Expectation]:
    """The suite of one table, over the row that `fact_row` returns."""
    low, high = max(0, expected.rows - expected.tolerance), expected.rows + expected.tolerance
    return [
        _between(ROWS, low, high),
        _is(COLUMNS, _listed(expected.columns)),
        *(_is(_type_of(name), _type_name(text)) for name, text in expected.columns.items()),
        *(_between(_nulls_in(name), 0, 0) for name in expected.not_null),
        *([_between(REPEATED, 0, 0, notes=PROVEN if expected.key_proven else None)] if expected.key else []),
    ]


def fact_row(expected: Expected, facts: StageFacts) -> FactRow:
    """The facts of one table as a frame of one row. A missing column has the type "none"."""
    import pandas as pd

    row: dict[str, object] = {ROWS: facts.rows, COLUMNS: _listed(facts.types), REPEATED: facts.repeated}
    row |= {_type_of(name): facts.types.get(name, "none") for name in expected.columns}
    row |= {_nulls_in(name): facts.nulls[name] for name in expected.not_null}
    return pd.DataFrame([row])


def _between(fact: str, low: int, high: int, notes: str | None = None) -> Expectation:
    from great_expectations import expectations as gxe

    return gxe.ExpectColumnValuesToBeBetween(column=fact, min_value=low, max_value=high, notes=notes)


def _is(fact: str, value: str) -> Expectation:
    from great_expectations import expectations as gxe

    return gxe.ExpectColumnValuesToBeInSet(column=fact, value_set=[value])


def _type_of(column: str) -> str:
    return f"type of {column}"


def _nulls_in(column: str) -> str:
    return f"NULLs in {column}"


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(columns)


def _type_name(text: str) -> str:
    """The name of a Spark SQL type, without its parameters."""
    from pyspark.sql.types import StructType

    return type(StructType.fromDDL(f"c {text}")["c"].dataType).__name__


def open_context(docs: Path) -> AbstractDataContext:
    """A Great Expectations context in memory whose only site is `docs`. It makes no network calls (no analytics)."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    for site in list(context.list_data_docs_sites()):
        context.delete_data_docs_site(site)
    context.add_data_docs_site(
        site_name="cdc",
        site_config={
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs)},
        },
    )
    return context


def run_suites(tables: Sequence[tuple[DataFrame, Expected]], docs: Path) -> list[SuiteResult]:
    """Check each table and write Data Docs of all of them to `docs` (index.html)."""
    asked = [Asked(frame, want.not_null, () if want.key_proven else want.key) for frame, want in tables]
    context = open_context(docs)
    results = [_run_one(context, want, facts) for (_, want), facts in zip(tables, count_facts(asked), strict=True)]
    context.build_data_docs()
    return results


def _run_one(context: AbstractDataContext, expected: Expected, facts: StageFacts) -> SuiteResult:
    row = fact_row(expected, facts)
    outcome = _defined(context, expected).run(batch_parameters={"dataframe": row}, result_format="SUMMARY")
    failures = tuple(_sentence(result, row) for result in outcome.results if not result.success)
    return SuiteResult(expected.name, bool(outcome.success), len(outcome.results), failures)


def _defined(context: AbstractDataContext, expected: Expected) -> ValidationDefinition:
    """The validation to run for one table."""
    import great_expectations as gx

    suite = context.suites.add(gx.ExpectationSuite(name=expected.name, expectations=expectations(expected)))
    asset = context.data_sources.add_pandas(expected.name).add_dataframe_asset(expected.name)
    batch = asset.add_batch_definition_whole_dataframe(f"snapshot {expected.snapshot_id}")
    return context.validation_definitions.add(gx.ValidationDefinition(name=expected.name, data=batch, suite=suite))


def _sentence(result: Any, row: FactRow) -> str:
    """One failed expectation in words: the fact, the expected value and the actual one."""
    kwargs = result.expectation_config.kwargs
    fact = kwargs["column"]
    raised = list(_exceptions(result.exception_info))
    return f"{fact}: {row[fact][0]}, expected {_wanted(kwargs)}" + (f"; raised {raised[0]}" if raised else "")


def _wanted(kwargs: Any) -> str:
    if "value_set" in kwargs:
        return str(kwargs["value_set"][0])
    low, high = int(kwargs["min_value"]), int(kwargs["max_value"])
    return str(low) if low == high else f"{low} to {high}"


def _exceptions(info: Any) -> Iterator[str]:
    """Messages of the errors an expectation raised (one dict, or one per metric)."""
    for entry in [info, *info.values()] if isinstance(info, dict) else []:
        if isinstance(entry, dict) and entry.get("raised_exception"):
            yield str(entry.get("exception_message", "")).splitlines()[0][:300]
