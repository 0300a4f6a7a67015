"""Great Expectations on pinned snapshots of stages: what every reader may rely on, as suites with Data Docs.

The verification has already compared every row; a suite states the result in terms that readers of the tables know,
and its Data Docs page is for them. A failed expectation blocks publishing the tables in which it fails. Spark counts
the facts that a suite needs once (compare/stage_facts.py), and the suite runs over these facts. An expectation costs
about 10 ms of CPU whatever it checks, and a page as much, so that a suite per table would be most of what a pipeline of
small tables waits for: the facts are a frame with a row per column of each table, and five expectations ask about all
rows of it at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.errors import VerificationError
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
TABLES_IN_A_SUITE = 100
# columns of the frame of facts; those about the whole table are filled in the row of its first column
TABLE = "table"
ROWS = "rows"
FEWEST = "fewest rows expected"
MOST = "most rows expected"
COLUMN = "column"
EXPECTED_COLUMN = "expected column"
NULLS = "NULLs where none may be"
REPEATED = "rows whose key another row has"
MISSING = "none"
PROVEN = "Not counted again: equal digests of every row prove it, because the source's key is unique."
# a result names the tables in which it fails
NAMED = {"result_format": "COMPLETE", "unexpected_index_column_names": [TABLE]}


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

    frame: Callable[[], DataFrame]
    expected: Expected
    small: FewRows | None = None

    @property
    def asked(self) -> Asked:
        """What to count in it."""
        want = self.expected
        return Asked(self.frame, want.not_null, () if want.key_proven else want.key, self.small)


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What a suite says of one table; `failures` are sentences, `checks` is the number of expectations about it."""

    name: str
    success: bool
    checks: int
    failures: tuple[str, ...] = ()


def expectations(tables: Sequence[Expected]) -> list[Expectation]:
    """The suite of some tables, over the frame of their facts."""
    keyed = [table for table in tables if table.key]
    proven = sum(table.key_proven for table in keyed)
    notes = PROVEN if proven == len(keyed) else f"{proven} of {len(keyed)} tables: {PROVEN}" if proven else None
    return [
        _at_least(ROWS, FEWEST),
        _at_least(MOST, ROWS),
        _equal(COLUMN, EXPECTED_COLUMN),
        *([_zero(NULLS)] if any(table.not_null for table in tables) else []),
        *([_zero(REPEATED, notes=notes)] if keyed else []),
    ]


def fact_frame(expected: Expected, facts: StageFacts) -> FactFrame:
    """The facts of one table, a row for each column that it has or should have."""
    import pandas as pd

    wanted = [f"{name} {_type_name(text)}" for name, text in expected.columns.items()]
    found = [f"{name} {type_name}" for name, type_name in facts.types.items()]
    frame = pd.DataFrame(zip_longest(found, wanted, fillvalue=MISSING), columns=[COLUMN, EXPECTED_COLUMN])
    counts: dict[str, list[int | None]] = {
        NULLS: [facts.nulls.get(name) for name in expected.columns],
        ROWS: [facts.rows],
        FEWEST: [max(0, expected.rows - expected.tolerance)],
        MOST: [expected.rows + expected.tolerance],
        REPEATED: [facts.repeated if expected.key else None],
    }
    for name, values in counts.items():
        frame[name] = pd.array([*values, *[None] * (len(frame) - len(values))], dtype="Int64")
    frame.insert(0, TABLE, expected.name)
    return frame


def _at_least(fact: str, other: str) -> Expectation:
    from great_expectations import expectations as gxe

    return gxe.ExpectColumnPairValuesAToBeGreaterThanB(
        column_A=fact, column_B=other, or_equal=True, ignore_row_if="both_values_are_missing"
    )


def _zero(fact: str, notes: str | None = None) -> Expectation:
    from great_expectations import expectations as gxe

    return gxe.ExpectColumnValuesToBeBetween(column=fact, min_value=0, max_value=0, notes=notes)


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
    checked = list(zip((one.expected for one in tables), count_facts([one.asked for one in tables]), strict=True))
    groups = [checked[begin : begin + TABLES_IN_A_SUITE] for begin in range(0, len(checked), TABLES_IN_A_SUITE)]
    results = [result for group in groups for result in _judged(context, group)]
    context.build_data_docs()
    return results


def _judged(context: AbstractDataContext, group: Sequence[tuple[Expected, StageFacts]]) -> Iterator[SuiteResult]:
    import pandas as pd

    frames = {expected.name: fact_frame(expected, facts) for expected, facts in group}
    validation = _defined(context, [expected for expected, _ in group])
    outcome = validation.run(
        batch_parameters={"dataframe": pd.concat(frames.values(), ignore_index=True)}, result_format=NAMED
    )
    failed = {expected.name: [one for one in outcome.results if _fails(one, expected.name)] for expected, _ in group}
    if not outcome.success and not any(failed.values()):
        raise VerificationError(
            f"expectations of {', '.join(frames)} failed, and Great Expectations names no table",
            todo="Look at the log, then clear the task.",
        )
    for expected, _ in group:
        failures = [text for one in failed[expected.name] for text in _sentences(one, frames[expected.name])]
        yield SuiteResult(expected.name, not failed[expected.name], _checks(expected), tuple(dict.fromkeys(failures)))


def _checks(expected: Expected) -> int:
    """Rows, columns, NULLs, key."""
    return 2 + bool(expected.not_null) + bool(expected.key)


def _fails(result: Any, table: str) -> bool:
    """Whether an expectation fails for a table; one that raised fails for all."""
    if result.success:
        return False
    places = result.result.get("unexpected_index_list") or ()
    return not places or any(place[TABLE] == table for place in places)


def _defined(context: AbstractDataContext, tables: Sequence[Expected]) -> ValidationDefinition:
    """The validation to run for some tables."""
    import great_expectations as gx

    name, versions = tables[0].name, ", ".join(str(table.snapshot_id) for table in tables[:1])
    if len(tables) > 1:
        name, versions = f"{name} and {len(tables) - 1} more", f"{versions} and others"
    suite = context.suites.add(gx.ExpectationSuite(name=name, expectations=expectations(tables)))
    asset = context.data_sources.add_pandas(name).add_dataframe_asset(name)
    batch = asset.add_batch_definition_whole_dataframe(f"snapshot {versions}")
    return context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batch, suite=suite))


def _sentences(result: Any, frame: FactFrame) -> Iterator[str]:
    """One failed expectation of a table in words: each fact with the expected value and the actual one."""
    kwargs = result.expectation_config.kwargs
    fact = kwargs.get("column") or kwargs["column_A"]
    if raised := list(_exceptions(result.exception_info)):
        yield f"{fact}: raised {raised[0]}"
    elif fact == COLUMN:
        yield from _other_columns(frame)
    elif fact == NULLS:
        for row in frame[frame[NULLS] > 0].to_dict("records"):
            yield f"NULLs in {_name(row[EXPECTED_COLUMN])}: {row[NULLS]}, expected 0"
    else:
        yield _counts(frame.to_dict("records")[0], REPEATED if fact == REPEATED else ROWS)


def _counts(first: Mapping[str, Any], fact: str) -> str:
    """A count of a whole table, and what it should be."""
    low, high = (0, 0) if fact == REPEATED else (first[FEWEST], first[MOST])
    return f"{fact}: {first[fact]}, expected {low if low == high else f'{low} to {high}'}"


def _other_columns(frame: FactFrame) -> Iterator[str]:
    """The first column that is not the expected one; those after it are often only moved by it."""
    different = frame[frame[COLUMN] != frame[EXPECTED_COLUMN]]
    for at, row in list(different.iterrows())[:1]:
        more = f", and {len(different) - 1} after it" if len(different) > 1 else ""
        yield f"column {int(at) + 1}: {row[COLUMN]}, expected {row[EXPECTED_COLUMN]}{more}"


def _name(column: str) -> str:
    """The name in "name type"."""
    return column.rpartition(" ")[0]


def _exceptions(info: Any) -> Iterator[str]:
    """Messages of the errors an expectation raised (one dict, or one per metric)."""
    for entry in [info, *info.values()] if isinstance(info, dict) else []:
        if isinstance(entry, dict) and entry.get("raised_exception"):
            yield str(entry.get("exception_message", "")).splitlines()[0][:300]
