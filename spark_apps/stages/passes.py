"""Compare the tables of some stages with the source, which catch up first; what differs is compared once more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from airflow_cdc.core.report import Verdict
from airflow_cdc.core.timeline import timed
from airflow_cdc.spark_apps.compare.caveats import CaveatsOf, wait_for_xa
from airflow_cdc.spark_apps.compare.few import most_rows
from airflow_cdc.spark_apps.compare.judge import judge
from airflow_cdc.spark_apps.compare.results import summary
from airflow_cdc.spark_apps.compare.scan import (
    Outcome,
    Reached,
    Subject,
    compare_tables,
    compare_views,
    decided,
    few_in_memory,
    groups,
    open_views,
)
from airflow_cdc.spark_apps.ports import connection_limit
from airflow_cdc.spark_apps.stages.catch_up import CATCH_UPS, catch_up, reach
from airflow_cdc.spark_apps.stages.work import Work

log = logging.getLogger("airflow_cdc.verify")

# Reads rows into the stages of some tables that events could not bring; returns the tables that had such rows.
PutRight = Callable[[Collection[str]], Collection[str]]


def compare_passes(
    work: Work, caveats: Callable[[], CaveatsOf], put_right: PutRight = lambda _tables: ()
) -> list[Outcome]:
    """Compare; the tables that are not MATCH catch up and are compared once more before that is reported.

    `caveats`, called after each pass, returns the reasons why a table cannot be MATCH whatever its rows are.
    """
    outcomes, left = dict[str, Outcome](), list(work.definitions)
    for number in range(1, work.patience.passes + 1):
        of_pass = _compared(work.of(left), put_right)
        for outcome in of_pass:
            wait_for_xa(work.run, outcome)
        caveats_of = caveats()
        for outcome in of_pass:
            outcome.add_caveats(*caveats_of(outcome))
            log.info("pass %d: %s", number, summary(outcome))
            outcomes[outcome.subject.table.full_name] = outcome
        left = [name for name in left if outcomes[name].verdict is not Verdict.MATCH]
        if not left:
            break
    return [outcomes[name] for name in work.definitions]


def _compared(work: Work, put_right: PutRight) -> list[Outcome]:
    """Catch the stages up, and compare some tables at a time."""
    reached, subjects = _caught_up(work, put_right)
    most = most_rows(subject.rows for subject in subjects)
    outcomes: list[Outcome] = []
    reader = work.systems.reader
    for some in groups(subjects, sharing=not reader.exact_views, connections=connection_limit(reader)):
        part = work.of([subject.table.full_name for subject in some])
        if reader.exact_views:
            outcomes += _compared_in_old_views(part, put_right, most=most)
        else:
            outcomes += _compared_by_the_log(part, few_in_memory(some, most), start=reached)
    return outcomes


def _compared_by_the_log(work: Work, subjects: Sequence[Subject], *, start: Reached) -> list[Outcome]:
    """Compare with views that are opened after the stages caught up, which was at `start`."""

    def reach_now() -> Reached:
        # the ends of these tables' topics only: all of 2,000 for every group is the square of the tables
        return reach(work)[0]

    with timed("comparing"):
        return compare_tables(work.systems.reader, subjects, judge, reach_now, watermark=work.server, start=start)


def _compared_in_old_views(work: Work, put_right: PutRight, *, most: int) -> list[Outcome]:
    """Compare with views that are opened before the stages catch up once more. `most`: see few_in_memory.

    Any row that changes meanwhile is then known from the view and from the changes' after images, so no before images
    are needed, which not every log holds.
    """
    reader, tables = work.systems.reader, list(work.definitions.values())

    def reach_now() -> Reached:
        return reach(work)[0]

    before = reach_now()
    # taken after the ends, so that a view that shows it shows everything before the ends
    lots = [[table] for table in tables]
    with open_views(reader, lots, work.server, work.run.clients.source.position()) as opened:
        views = [opened[table.full_name] for table in tables]
        _, subjects = _caught_up(work, put_right)
        old = [replace(subject, before=before) for subject in few_in_memory(subjects, most)]
        with timed("comparing"):
            judgements, now = compare_views(reader, old, views, judge, reach_now, watermark=work.server)
    return decided(reader, judgements, reach_now, watermark=work.server, now=now)


def _caught_up(work: Work, put_right: PutRight) -> tuple[Reached, list[Subject]]:
    """Catch up; tables with rows that were re-read meanwhile once more, so that no row is newer than the compared ends.

    After CATCH_UPS rounds nothing is re-read any more: the last dead letters remain as a caveat. Returns what was
    reached last, which no subject is beyond.
    """
    subjects, left = dict[str, Subject](), list(work.definitions)
    for round_ in reversed(range(CATCH_UPS)):
        reached, fresh = catch_up(work.of(left))
        subjects |= {subject.table.full_name: subject for subject in fresh}
        again = put_right(left) if round_ else ()
        left = [name for name in left if name in again]
        if not left:
            break
    return reached, [subjects[name] for name in work.definitions]
