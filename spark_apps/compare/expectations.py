"""Great Expectations on one pinned snapshot of a stage: what every reader may rely on, as a suite with Data Docs.

The verification has already compared every row; the suite states the result in terms that readers of the table know,
and its Data Docs page is for them. A failed suite blocks publishing. Spark counts the facts a suite needs once
(compare/stage_facts.py), and the suite runs over these facts. An expectation costs about 15 ms of CPU whatever it
checks, so that one per column would be most of what a pipeline of small tables waits for: a table's facts are a frame
with a row per column, and four expectations ask about all rows of it at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_cdc.spark_apps.compare.scan import Outcome
from airflow_cdc.spark_apps.compare.stage_facts import Asked, StageFacts, count_facts
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from great_expectations.core.validation_definition import ValidationDefinition
    from great_expectations.data_context import AbstractDataContext
    from great_expectations.expectations.expectation import Expectation
    from pandas import DataFrame as FactFrame
    from pyspark.sql import DataFrame

    from airflow_cdc.spark_apps.compare.few import FewRows

DATA_DOCS = "data_docs"
# columns of the frame of facts
ROWS = "rows"
COLUMN = "column"
EXPECTED_COLUMN = "expected column"
NULLS = "NULLs where none may be"
REPEATED = "rows whose key another row has"
MISSING = "none"
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
class Pinned:
    """A snapshot and what it must hold; `small`: reads its rows into memory if they are few."""

    frame: DataFrame
    expected: Expected
    small: FewRows | None = None

    @property
    def asked(self) -> Asked:
        """What to count in it."""
        want = self.expected
        return Asked(self.frame, want.not_null, () if want.key_proven else want.key, self.small)


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The result of one table's suite; `failures` are sentences, `checks` is the number of expectations."""

    name: str
    success: bool
    checks: int
    failures: tuple[str, ...] = ()


def expectations(expected: Expected) -> list[Expectation]:
    """The suite of one table, over the frame that `fact_frame` returns."""
    low, high = max(0, expected.rows - expected.tolerance), expected.rows + expected.tolerance
    return [
        _between(ROWS, low, high),
        _equal(COLUMN, EXPECTED_COLUMN),
        *([_between(NULLS, 0, 0)] if expected.not_null else []),
        *([_between(REPEATED, 0, 0, notes=PROVEN if expected.key_proven else None)] if expected.key else []),
    ]


def fact_frame(expected: Expected, facts: StageFacts) -> FactFrame:
    """The facts of one table, a row for each column that it has or should have."""
    import pandas as pd

    wanted = [f"{name} {_type_name(text)}" for name, text in expected.columns.items()]
    found = [f"{name} {type_name}" for name, type_name in facts.types.items()]
    nulls = [facts.nulls.get(name) for name in expected.columns]
    rows = zip_longest(found, wanted, fillvalue=MISSING)
    frame = pd.DataFrame(rows, columns=[COLUMN, EXPECTED_COLUMN])
    frame[NULLS] = pd.array([*nulls, *[None] * (len(frame) - len(nulls))], dtype="Int64")
    return frame.assign(**{ROWS: facts.rows, REPEATED: facts.repeated})


def _between(fact: str, low: int, high: int, notes: str | None = None) -> Expectation:
    from great_expectations import expectations as gxe

    return gxe.ExpectColumnValuesToBeBetween(column=fact, min_value=low, max_value=high, notes=notes)


def _equal(fact: str, other: str) -> Expectation:
    from great_expectations import expectations as gxe

    return gxe.ExpectColumnPairValuesToBeEqual(column_A=fact, column_B=other)


_TYPE_NAMES = {
    "int": "IntegerType",
    "bigint": "LongType",
    "decimal": "DecimalType",
    "double": "DoubleType",
    "boolean": "BooleanType",
    "string": "StringType",
    "binary": "BinaryType",
    "date": "DateType",
    "timestamp": "TimestampType",
    "timestamp_ntz": "TimestampNTZType",
    "array": "ArrayType",
    "struct": "StructType",
}


def _type_name(text: str) -> str:
    """The name of a Spark SQL type, without its parameters. Not asked of Spark: 3.5 parses types in a session only."""
    return _TYPE_NAMES[re.split(r"[(<]", text, maxsplit=1)[0]]


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


def run_suites(tables: Sequence[Pinned], docs: Path) -> list[SuiteResult]:
    """Check each table and write Data Docs of all of them to `docs` (index.html)."""
    context = open_context(docs)
    facts = count_facts([table.asked for table in tables])
    results = [_run_one(context, table.expected, found) for table, found in zip(tables, facts, strict=True)]
    context.build_data_docs()
    return results


def _run_one(context: AbstractDataContext, expected: Expected, facts: StageFacts) -> SuiteResult:
    frame = fact_frame(expected, facts)
    outcome = _defined(context, expected).run(batch_parameters={"dataframe": frame}, result_format="SUMMARY")
    failures = tuple(say for result in outcome.results if not result.success for say in _sentences(result, frame))
    return SuiteResult(expected.name, bool(outcome.success), len(outcome.results), failures)


def _defined(context: AbstractDataContext, expected: Expected) -> ValidationDefinition:
    """The validation to run for one table."""
    import great_expectations as gx

    suite = context.suites.add(gx.ExpectationSuite(name=expected.name, expectations=expectations(expected)))
    asset = context.data_sources.add_pandas(expected.name).add_dataframe_asset(expected.name)
    batch = asset.add_batch_definition_whole_dataframe(f"snapshot {expected.snapshot_id}")
    return context.validation_definitions.add(gx.ValidationDefinition(name=expected.name, data=batch, suite=suite))


def _sentences(result: Any, frame: FactFrame) -> Iterator[str]:
    """One failed expectation in words: each fact with the expected value and the actual one."""
    kwargs = result.expectation_config.kwargs
    if raised := list(_exceptions(result.exception_info)):
        yield f"{kwargs.get('column', COLUMN)}: raised {raised[0]}"
    elif "column_A" in kwargs:
        yield from _other_columns(frame)
    elif kwargs["column"] == NULLS:
        for row in frame[frame[NULLS] > 0].to_dict("records"):
            yield f"NULLs in {_name(row[EXPECTED_COLUMN])}: {row[NULLS]}, expected 0"
    else:
        yield f"{kwargs['column']}: {frame[kwargs['column']][0]}, expected {_wanted(kwargs)}"


def _other_columns(frame: FactFrame) -> Iterator[str]:
    """The first column that is not the expected one; those after it are often only moved by it."""
    different = frame[frame[COLUMN] != frame[EXPECTED_COLUMN]]
    for at, row in list(different.iterrows())[:1]:
        more = f", and {len(different) - 1} after it" if len(different) > 1 else ""
        yield f"column {int(at) + 1}: {row[COLUMN]}, expected {row[EXPECTED_COLUMN]}{more}"


def _name(column: str) -> str:
    """The name in "name type"."""
    return column.rpartition(" ")[0]


def _wanted(kwargs: Any) -> str:
    low, high = int(kwargs["min_value"]), int(kwargs["max_value"])
    return str(low) if low == high else f"{low} to {high}"


def _exceptions(info: Any) -> Iterator[str]:
    """Messages of the errors an expectation raised (one dict, or one per metric)."""
    for entry in [info, *info.values()] if isinstance(info, dict) else []:
        if isinstance(entry, dict) and entry.get("raised_exception"):
            yield str(entry.get("exception_message", "")).splitlines()[0][:300]
