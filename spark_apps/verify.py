"""The application `verify`: catch the stages up, compare every row, run the expectations, decide what may be published.

Airflow sees only the exit status of a Spark driver, so every number goes into the control table and into
`verify.json` beside the report.
"""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_cdc.core.epochs import Epochs
from airflow_cdc.core.errors import DeadlineError, SinkError, VerificationError
from airflow_cdc.core.pipeline import Corrected, Writer
from airflow_cdc.core.poll import NotYet, poll_while_moving
from airflow_cdc.core.ports import Stage, Staging
from airflow_cdc.core.report import Verdict, overall
from airflow_cdc.core.timeline import timed
from airflow_cdc.decisions.compare.expectations import Judged, judged
from airflow_cdc.fields import Fields
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.carried import odd_values_named
from airflow_cdc.flows.close import report_folder
from airflow_cdc.flows.recovery import current, own_way_on, watermark_of
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.flows.side_by_side import for_each
from airflow_cdc.flows.stages import staging_of
from airflow_cdc.reports.data_docs import keep_facts
from airflow_cdc.spark_apps.compare.differing_rows import keep_rows
from airflow_cdc.spark_apps.compare.expectations import counted
from airflow_cdc.spark_apps.compare.few import most_rows
from airflow_cdc.spark_apps.compare.in_place import compare_in_place
from airflow_cdc.spark_apps.compare.results import keep, make_report, refuse
from airflow_cdc.spark_apps.driver.app import explained, open_app
from airflow_cdc.spark_apps.driver.lost import begun_again
from airflow_cdc.spark_apps.driver.session import begin
from airflow_cdc.spark_apps.driver.systems import open_systems, open_topics, row_reader
from airflow_cdc.spark_apps.snapshot.folded import Terms, compare_topics
from airflow_cdc.spark_apps.stages.catch_up import LettersAgain
from airflow_cdc.spark_apps.stages.passes import compare_passes
from airflow_cdc.spark_apps.stages.work import Patience, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_cdc.verify")

AGAIN = "Main is as it was; clear the task verify to verify again."
RESUME_SECONDS = 1800.0


def main(settings: Mapping[str, object]) -> Facts:
    """Verify the stages of the run's open recovery. `settings` is what the operator wrote for the driver."""
    with open_app(settings, "verify") as (run, spark):
        return begun_again(lambda: verify(run, spark, settings), "verify")


@step("verify", leased=True)
def verify(run: Run, spark: SparkSession, settings: Mapping[str, object] | None = None) -> Facts:
    """Catch up, compare, check expectations; store the result for `publish` and the report.

    Tables that the connector writes itself are compared as readers see them. Raises VerificationError (MISMATCH or
    INCONCLUSIVE) where the pipeline's policy allows nothing to be published.
    """
    in_place = run.pipeline.corrected is not Corrected.STAGED
    if not in_place and (done := _nothing_left(run)) is not None:
        return done
    options, began = Fields(settings or {}), time.monotonic()
    rows = [stage.rows for stage in current(run).stages.values()]
    if max(rows, default=0) > most_rows(rows):
        begin(spark)
    longest = max(RESUME_SECONDS, run.pipeline.policy.standstill)
    wait_resumed(run, options.real("resume_seconds", longest))
    labels, xa = dict[str, str](), run.clients.source.xa()
    try:
        named = odd_values_named(run, current(run).unpublished, "verify")
        with named, explained(SinkError, "compare the tables", where=run.where, todo=AGAIN):
            recovery, seconds = current(run), Patience.of(run, settings).seconds
            if run.pipeline.sink.writer == Writer.CONSUMERS:
                terms = Terms(watermark_of(recovery, run), seconds)
                outcomes = compare_topics(run, spark, open_topics(run), recovery.tables, terms)
            elif in_place:
                outcomes = compare_in_place(run, spark, recovery.tables, watermark_of(recovery, run), seconds)
            else:
                work = load_work(run, spark, settings)
                labels = {table: stage.label for table, stage in work.stages.items()}
                again = LettersAgain(work, current(run).fence or {})
                with own_way_on(run):
                    outcomes = compare_passes(work, again.caveats, again.put_right)
    except DeadlineError as error:
        raise VerificationError(
            f"the comparison could not be finished: {error.what}",
            where=run.where,
            todo="See why the connector does not move, then clear the task verify.",
            verdict=str(Verdict.INCONCLUSIVE),
        ) from error
    for outcome in outcomes:
        keep_rows(run, row_reader(run), spark, outcome)
    counting = explained(SinkError, "count the rows that were compared", where=run.where, todo=AGAIN)
    with counting, timed("facts for the expectations"):
        # a copy is read in its own database, and written meanwhile: what was compared is not there any more
        facts_of = counted(outcomes) if run.clients.feeder is None else []
    if facts_of:
        keep_facts(report_folder(run), facts_of)
    suites = {one.expected.name: judged(one) for one in facts_of}
    names = [outcome.subject.table.full_name for outcome in outcomes]
    nothing = {name: Judged(name, checks=0) for name in names}
    reports = [make_report(one, (nothing | suites)[name]) for name, one in zip(names, outcomes, strict=True)]
    facts = keep(run, reports, list(suites.values()), labels, round(time.monotonic() - began, 3), xa=xa)
    refuse(run, reports)
    return facts


def _nothing_left(run: Run) -> Facts | None:
    """The stored result if all tables are published already; None if a table is left to compare."""
    recovery = current(run)
    if recovery.unpublished:
        return None
    verdicts = {name: done.verdict for name, done in recovery.verified.items()}
    return {"verdict": str(overall(Verdict(verdict) for verdict in verdicts.values())), "tables": verdicts}


def wait_resumed(run: Run, standstill: float) -> None:
    """Wait until the connector streams past W, as long as the steps that bring it there make progress.

    Raises NoRecoveryError if the recovery disappears meanwhile.
    """

    def probe() -> object:
        recovery = current(run)
        if recovery.resumed_at:
            return recovery.resumed_at
        raise NotYet(recovery.resuming or f"offset written at {recovery.written_at or None}")

    poll_while_moving(probe, standstill=standstill, interval=0.5, what="the connector to be resumed by this recovery")


def load_work(run: Run, spark: SparkSession, settings: Mapping[str, object] | None) -> Work:
    """Make a stage for this try from the one that `recover` filled, for each table (INV 38).

    A driver that outlived its task keeps writing to the stage of its own try: in a shared stage, the rows it appends
    would be ghosts. Raises VerificationError if a table was not read.
    """
    recovery = current(run)
    tables, stages = recovery.unpublished, recovery.stages
    if missing := [table for table in tables if table not in stages]:
        raise VerificationError(
            f"{', '.join(missing)} was not read yet", where=run.where, todo="Clear the task recover and all after it."
        )
    lake, namespace = staging_of(run), run.pipeline.sink.namespace
    names = {table: run.pipeline.sink_table(table) for table in tables}
    stages_of = defaultdict[str, dict[str, Stage]](dict)
    for stage in lake.stages(namespace, *names.values()) if names else ():
        stages_of[stage.table][stage.label] = stage

    def own(table: str) -> Stage:
        return _own_stage(lake, namespace, names[table], stages[table].label, stages_of[names[table]])

    own_stages = dict(zip(names, for_each(own, tuple(names)), strict=True))
    watermark = watermark_of(recovery, run)
    definitions, systems = captured(run, tables), open_systems(run)
    patience = Patience.of(run, settings)
    return Work(run, spark, systems, Epochs(recovery.epoch), patience, definitions, own_stages, watermark=watermark)


def _own_stage(lake: Staging, namespace: str, table: str, filled: str, known: Mapping[str, Stage]) -> Stage:
    """The stage `<filled>_v<try>`, with a try number that none of the table's stages (`known`, by label) has."""
    tries = (re.fullmatch(rf"{re.escape(filled)}_v(\d+)", label) for label in known)
    number = 1 + max((int(match[1]) for match in tries if match), default=0)
    source = known.get(filled) or lake.open_stage(namespace, table, filled)
    return lake.stage(namespace, table, f"{filled}_v{number}", from_stage=source)
