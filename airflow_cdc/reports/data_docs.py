"""The page of Great Expectations (Data Docs) about a verification, made of the facts that it counted.

A recovery's tables are published first: making the page takes seconds, most of them for the import. It runs in a process of
its own, so that a worker of Airflow does not keep the library in memory. An expectation costs about 10 ms of CPU whatever
it checks, and a page as much, so that a suite per table would cost more than the rest for a pipeline of small tables: the
facts are a frame with a row per column of each table, and five expectations ask about all rows of it at once.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_cdc.core.codec import plain, read
from airflow_cdc.core.errors import CdcError, VerificationError
from airflow_cdc.decisions.compare.expectations import REPEATED, ROWS, Counted, Expected, columns_beside, judged
from airflow_cdc.names import file_part
from airflow_cdc.reports.store import ReportStore, safe

if TYPE_CHECKING:
    from great_expectations.core.validation_definition import ValidationDefinition
    from great_expectations.data_context import AbstractDataContext
    from great_expectations.expectations.expectation import Expectation
    from pandas import DataFrame as FactFrame

log = logging.getLogger("airflow_cdc.data_docs")

FOLDER: Final = "data_docs"
FACTS: Final = "expectations.json"
PAGE_SECONDS: Final = 300.0
TABLES_IN_A_SUITE: Final = 100
# columns of the frame of facts; those about the whole table are filled in the row of its first column
TABLE = "table"
FEWEST = "fewest rows expected"
MOST = "most rows expected"
COLUMN = "column"
EXPECTED_COLUMN = "expected column"
NULLS = "NULLs where none may be"
PROVEN = "Not counted again: equal digests of every row prove it, because the source's key is unique."
# a result names the tables in which it fails
NAMED = {"result_format": "COMPLETE", "unexpected_index_column_names": [TABLE]}


def keep_facts(folder: str, tables: Sequence[Counted]) -> None:
    """Keep what was counted in a run's report folder, for the page that is made when the run ends."""
    ReportStore(folder).write(json.dumps([plain(one) for one in tables]), FACTS)


def make_page(reports: ReportStore, pipeline: str, run_id: str) -> None:
    """Make the page of a run from its facts, if it kept any. A page that can't be made is logged: tables do not wait for it."""
    facts = reports.read(pipeline, safe(run_id), FACTS)
    if facts is None:
        return
    try:
        with tempfile.TemporaryDirectory() as scratch:
            _by_a_process(facts, Path(scratch))
            ReportStore(reports.location(pipeline, safe(run_id), FOLDER)).put(Path(scratch))
    except (CdcError, OSError, subprocess.SubprocessError) as error:
        log.warning("no page of Great Expectations was made, which changes no verdict: %s", error)


def _by_a_process(facts: bytes, folder: Path) -> None:
    command = (sys.executable, "-m", __name__, str(folder))
    done = subprocess.run(command, input=facts, capture_output=True, timeout=PAGE_SECONDS, check=False)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise VerificationError(last[0], todo=f"Look at {FACTS} in the run's folder.")


def main() -> int:
    """`python -m airflow_cdc.reports.data_docs FOLDER`, with the facts on stdin."""
    # jsonschema imports it where it is installed, and builds a grammar of it: a second, for a format that nothing here has
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
    write_pages([read(Counted, one) for one in json.load(sys.stdin)], Path(sys.argv[1]))
    return 0


def write_pages(tables: Sequence[Counted], folder: Path) -> None:
    """Write Data Docs of the tables to `folder` (index.html).

    Raises VerificationError where Great Expectations says otherwise of a table than the run did.
    """
    context = open_context(folder)
    groups = [tables[begin : begin + TABLES_IN_A_SUITE] for begin in range(0, len(tables), TABLES_IN_A_SUITE)]
    failed = {name for group in groups for name in _failed(context, group)}
    context.build_data_docs()
    if odd := failed ^ {one.expected.name for one in tables if not judged(one).success}:
        raise VerificationError(
            f"Great Expectations says otherwise than the run of {', '.join(sorted(odd))}",
            where=str(folder),
            todo="Report it with the run's expectations.json.",
        )


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


def fact_frame(counted: Counted) -> FactFrame:
    """The facts of one table, a row for each column that it has or should have."""
    import pandas as pd

    expected, facts = counted.expected, counted.facts
    frame = pd.DataFrame(columns_beside(expected, facts), columns=[COLUMN, EXPECTED_COLUMN])
    counts: dict[str, list[int | None]] = {
        NULLS: [facts.nulls.get(name) for name in expected.columns],
        ROWS: [facts.rows],
        FEWEST: [expected.least],
        MOST: [expected.most],
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


def _failed(context: AbstractDataContext, group: Sequence[Counted]) -> Iterator[str]:
    """The tables of a suite that do not hold it."""
    import pandas as pd

    validation = _defined(context, [one.expected for one in group])
    frame = pd.concat([fact_frame(one) for one in group], ignore_index=True)
    outcome = validation.run(batch_parameters={"dataframe": frame}, result_format=NAMED)
    for result in outcome.results:
        if not result.success:
            places = result.result.get("unexpected_index_list")
            yield from {place[TABLE] for place in places} if places else {one.expected.name for one in group}


def _defined(context: AbstractDataContext, tables: Sequence[Expected]) -> ValidationDefinition:
    """The validation to run for some tables."""
    import great_expectations as gx

    # Great Expectations makes file names of it and refuses a slash
    name, version = file_part(tables[0].name), tables[0].version
    if len(tables) > 1:
        name, version = f"{name} and {len(tables) - 1} more", f"{version} and others"
    suite = context.suites.add(gx.ExpectationSuite(name=name, expectations=expectations(tables), notes=version))
    asset = context.data_sources.add_pandas(name).add_dataframe_asset(name)
    batch = asset.add_batch_definition_whole_dataframe(version)
    return context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batch, suite=suite))


if __name__ == "__main__":
    sys.exit(main())
