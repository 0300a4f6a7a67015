"""Great Expectations on one pinned snapshot of a stage: what any reader may take for granted, as a suite with Data Docs.

The verification has already compared every row; the suite states the same in the words of the people who read the
table, and its page is theirs. A failed suite blocks publishing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_cdc.spark_apps.driver.sql import quote_ident

if TYPE_CHECKING:
    from great_expectations.core.validation_definition import ValidationDefinition
    from great_expectations.data_context import AbstractDataContext
    from great_expectations.expectations.expectation import Expectation
    from pyspark.sql import DataFrame

DATA_DOCS = "data_docs"
TABLES_AT_ONCE = 3
_UNQUOTED = frozenset(".`")


@dataclass(frozen=True, slots=True)
class Expected:
    """What a snapshot of a sink table must hold.

    Attributes:
        name: "schema.table"; `snapshot_id`: the snapshot that is checked.
        columns: name → Spark SQL type, in order.
        not_null: columns in which NULL is a fault (the key, and what the source declares NOT NULL).
        rows: rows of the source; `tolerance`: rows in flight at the comparison, by which the count may differ.
        key: columns that are unique together; empty for a table without a key.
    """

    name: str
    snapshot_id: int
    columns: dict[str, str]
    not_null: tuple[str, ...]
    rows: int
    tolerance: int = 0
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What became of one table's suite; `failures` are sentences, `checks` the number of expectations."""

    name: str
    success: bool
    checks: int
    failures: tuple[str, ...] = ()


def expectations(expected: Expected) -> list[Expectation]:
    """The suite of one table."""
    from great_expectations import expectations as gxe

    low, high = max(0, expected.rows - expected.tolerance), expected.rows + expected.tolerance
    return [
        gxe.ExpectTableRowCountToBeBetween(min_value=low, max_value=high),
        gxe.ExpectTableColumnsToMatchOrderedList(column_list=list(_names(expected.columns))),
        *_types(expected.columns),
        *(gxe.ExpectColumnValuesToNotBeNull(column=name) for name in expected.not_null),
        *_unique(expected.key),
    ]


def addressable(columns: Iterable[str]) -> dict[str, str]:
    """Column → a name for it that Great Expectations can address: it quotes none, so a dot would mean a struct's field."""
    names: dict[str, str] = {}
    taken = {name.lower() for name in columns if not set(name) & _UNQUOTED}
    for at, name in enumerate(columns, 1):
        plain = "".join("_" if letter in _UNQUOTED else letter for letter in name)
        names[name] = name if plain == name else plain if plain.lower() not in taken else f"{plain}_{at}"
        taken.add(names[name].lower())
    return names


def _addressed(frame: DataFrame, expected: Expected) -> tuple[DataFrame, Expected]:
    """The frame and what is expected of it, under such names."""
    names = addressable(expected.columns)
    columns = {names[name]: kind for name, kind in expected.columns.items()}
    not_null, key = (tuple(names[name] for name in some) for some in (expected.not_null, expected.key))
    renamed = frame.select(*(frame[quote_ident(name)].alias(names.get(name, name)) for name in frame.columns))
    return renamed, replace(expected, columns=columns, not_null=not_null, key=key)


def _names(columns: dict[str, str]) -> Iterator[str]:
    """Column names as Great Expectations lists them: the fields of a struct follow it, behind a dot."""
    from pyspark.sql.types import StructType

    for name, text in columns.items():
        yield name
        kind = StructType.fromDDL(f"c {text}")["c"].dataType
        if isinstance(kind, StructType):
            yield from (f"{name}.{field.name}" for field in kind.fields)


def _types(columns: dict[str, str]) -> Iterator[Expectation]:
    from great_expectations import expectations as gxe
    from pyspark.sql.types import StructType

    for name, text in columns.items():
        kind = type(StructType.fromDDL(f"c {text}")["c"].dataType).__name__
        yield gxe.ExpectColumnValuesToBeOfType(column=name, type_=kind)


def _unique(key: Sequence[str]) -> list[Expectation]:
    from great_expectations import expectations as gxe

    if len(key) == 1:
        return [gxe.ExpectColumnValuesToBeUnique(column=key[0])]
    return [gxe.ExpectCompoundColumnsToBeUnique(column_list=list(key))] if key else []


def open_context(docs: Path) -> AbstractDataContext:
    """A Great Expectations context in memory whose only site is `docs`. It calls no one outside (no analytics)."""
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
    context = open_context(docs)
    tables = [_addressed(*table) for table in tables]
    checks = [_defined(context, expected) for _, expected in tables]
    # a table's queries are small and follow each other: alone they leave half of two cores idle
    with ThreadPoolExecutor(TABLES_AT_ONCE, thread_name_prefix="expectations") as pool:
        results = list(pool.map(_run_one, checks, *zip(*tables, strict=True))) if tables else []
    context.build_data_docs()
    return results


def _defined(context: AbstractDataContext, expected: Expected) -> ValidationDefinition:
    """What is to be run for one table, with a data source of its own: its engine keeps the batch it is at."""
    import great_expectations as gx

    suite = context.suites.add(gx.ExpectationSuite(name=expected.name, expectations=expectations(expected)))
    asset = context.data_sources.add_spark(expected.name, persist=False).add_dataframe_asset(expected.name)
    batch = asset.add_batch_definition_whole_dataframe(f"snapshot {expected.snapshot_id}")
    return context.validation_definitions.add(gx.ValidationDefinition(name=expected.name, data=batch, suite=suite))


def _run_one(check: ValidationDefinition, frame: DataFrame, expected: Expected) -> SuiteResult:
    found = check.run(batch_parameters={"dataframe": frame}, result_format="SUMMARY")
    failures = tuple(_sentence(result) for result in found.results if not result.success)
    return SuiteResult(expected.name, bool(found.success), len(found.results), failures)


def _sentence(result: Any) -> str:
    """One failed expectation in words: what was expected of which column, and what was found."""
    config, facts = result.expectation_config, result.result or {}
    about = {key: value for key, value in config.kwargs.items() if key not in ("batch_id", "result_format")}
    seen = facts.get("observed_value", facts.get("unexpected_count"))
    raised = list(_exceptions(result.exception_info))
    return f"{config.type} {about}: found {seen}" + (f", raised {raised[0]}" if raised else "")


def _exceptions(info: Any) -> Iterator[str]:
    """Messages of the errors an expectation met (one dict, or one per metric)."""
    for entry in [info, *info.values()] if isinstance(info, dict) else []:
        if isinstance(entry, dict) and entry.get("raised_exception"):
            yield str(entry.get("exception_message", "")).splitlines()[0][:300]
