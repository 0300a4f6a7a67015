"""The application `nightly`: compare rows touched since the last check, and a share of the rest; change nothing.

Each table is caught up and compared in its own temporary stage. Whatever cannot be observed is INCONCLUSIVE, with its
reason, never a difference and never healthy. A restarted run continues with the tables it has not compared yet.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_cdc.core.codec import plain, read, sparse
from airflow_cdc.core.errors import CdcError, ConfigError, SinkError, UsageError
from airflow_cdc.core.ports import Stage
from airflow_cdc.core.report import TableReport, Verdict, overall
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import TopicState
from airflow_cdc.core.xa import XaState, rollback_doubt
from airflow_cdc.decisions.apply.applied import Applied
from airflow_cdc.decisions.compare.expectations import Counted, judged
from airflow_cdc.decisions.compare.leaves import LEAF_ROWS
from airflow_cdc.decisions.compare.nightly import WHOLE_NIGHT, Checked, NightPlan, Seen, first_check, plan_night
from airflow_cdc.decisions.compare.part import WHOLE
from airflow_cdc.decisions.compare.repair import Deletions, RepairPlan, needs_approval
from airflow_cdc.decisions.table_id import is_rebuilt
from airflow_cdc.fields import Fields
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.checks import report_check, store_json
from airflow_cdc.flows.close import report_folder
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.flows.side_by_side import for_each
from airflow_cdc.names import file_part
from airflow_cdc.reports import data_docs
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.spark_apps.compare.behind import Main
from airflow_cdc.spark_apps.compare.caveats import CaveatsOf, letter_caveats
from airflow_cdc.spark_apps.compare.differing_rows import keep_rows
from airflow_cdc.spark_apps.compare.expectations import counted
from airflow_cdc.spark_apps.compare.results import make_report, unproven
from airflow_cdc.spark_apps.compare.scan import Outcome
from airflow_cdc.spark_apps.compare.tail import touched_leaves
from airflow_cdc.spark_apps.driver.app import explained, open_app
from airflow_cdc.spark_apps.driver.lost import begun_again
from airflow_cdc.spark_apps.driver.session import SMALL_BATCH, sibling
from airflow_cdc.spark_apps.stages.compare_only import compare_only
from airflow_cdc.spark_apps.stages.passes import compare_passes
from airflow_cdc.spark_apps.stages.publish import staged
from airflow_cdc.spark_apps.stages.work import Work, open_work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


log = logging.getLogger("airflow_cdc.nightly")

TODO = "Nothing was changed; clear the task compare to compare again."


def main(settings: Mapping[str, object]) -> Facts:
    """Compare the pipeline's tables. `settings` is what the operator wrote for the driver."""
    with open_app(settings, "nightly") as (run, spark):
        return nightly(run, spark, settings)


@dataclass(frozen=True, slots=True)
class NightRun:
    """One night's comparison of one pipeline.

    `leaf_rows`: rows per leaf. `table_ids`: the source's ids of the tables before anything is compared. `xa`: its XA
    state before each table's comparison until now.
    """

    work: Work
    now: datetime
    known: Mapping[str, Checked]
    cascades: frozenset[str]
    leaf_rows: int
    table_ids: Mapping[str, str] = field(default_factory=dict)
    xa: Mapping[str, XaState] = field(default_factory=dict)


@step("nightly")
def nightly(
    run: Run, spark: SparkSession, settings: Mapping[str, object] | None = None, now: datetime | None = None
) -> Facts:
    """Compare every table as `core.nightly` plans it. Options: `leaf_rows`, and those of the application verify.

    Returns `{"verdict", "tables", "plans", "needs_approval", "data_docs"}`. Raises only for configuration errors;
    whatever could not be observed is INCONCLUSIVE. Tables that others write are compared whole, and never repaired.
    """
    if not run.pipeline.is_applied:
        return {**compare_only(run, spark, settings), "plans": {}, "needs_approval": False}
    options = dict(settings or {})
    names = list(run.tables)
    results_of = run.clients.control.ledger_get(run.run_id).get("check") or {}
    left = [name for name in names if results_of.get(name, {}).get("verdict") != Verdict.MATCH]
    reports = _compare_all(run, spark, left, options, now or datetime.now(UTC))
    check = report_check(run, reports, evidence={name: _evidence(one) for name, one in reports.items()})
    results = run.clients.control.ledger_get(run.run_id)["check"]
    plans = {name: result["plan"] for name, result in results.items() if result.get("plan")}
    verdicts = {name: str(result["verdict"]) for name, result in results.items()}
    return {
        **check,
        "keys": report_folder(run),
        data_docs.FOLDER: _page(run, verdicts),
        "verdict": str(overall(Verdict(verdict) for verdict in verdicts.values())),
        "tables": verdicts,
        "plans": plans,
        "needs_approval": needs_approval(
            run.pipeline.policy, [Deletions(plan["deletes"], plan["rows"]) for plan in plans.values()]
        ),
    }


def _compare_all(
    run: Run, spark: SparkSession, names: Sequence[str], options: Mapping[str, object], now: datetime
) -> dict[str, TableReport]:
    try:
        work = open_work(run, spark, options)
        definitions = captured(run, names) if names else {}
        leaf_rows = Fields(options).number("leaf_rows", LEAF_ROWS)
        ids, xa = run.clients.source.table_ids(names), run.clients.control.facts().compared_xa
        known = {name: Checked.from_json(check) for name, check in run.clients.control.checks().items()}
        # tables whose rows change without an event on this server (INV 14): compared whole every night
        cascades = run.clients.source.cascade_targets(run.pipeline.source.tables)
        night = NightRun(work, now, known, cascades, leaf_rows, ids, xa)
    except (ConfigError, UsageError):
        raise
    except CdcError as error:
        log.warning("no table can be compared: %s", error)
        return {name: unproven(name, str(error)) for name in names}
    return {name: _checked(night, definitions[name]) for name in names}


def _checked(night: NightRun, table: Table) -> TableReport:
    """Compare one table and keep the result; an error that stops the comparison makes it INCONCLUSIVE."""
    try:
        return begun_again(lambda: _report(night, table), f"the comparison of {table.full_name}")
    except CdcError as error:
        log.warning("%s could not be compared: %s", table.full_name, error)
        return unproven(table.full_name, str(error))


def _report(night: NightRun, table: Table) -> TableReport:
    run = night.work.run
    with staged(night.work, table) as stage, explained(SinkError, "compare the table", where=run.where, todo=TODO):
        state = _topic_state(night.work, table)
        main = night.work.main(table, stage)
        if (report := main.stands_still()) is not None:
            return report
        plan = plan_night(table, night.known.get(table.full_name), _seen(night, table, stage, state), night.now)
        plan, outcome = _compare(night, main, table, plan)
        keep_rows(run, night.work.systems.reader, night.work.spark, outcome)
        (facts,) = counted([outcome])
        report = main.reported(outcome, make_report(outcome, judged(facts)), xa_open=night.work.xa_open)
        if behind := report.caught_up:
            facts = facts.of_main(report.compared_at.snapshot_id, behind.events)
        store_json(run, _facts_file(table.full_name), plain(facts))
        return _keep(night, plan, state, outcome, report)


def _compare(night: NightRun, main: Main, table: Table, plan: NightPlan) -> tuple[NightPlan, Outcome]:
    """Compare what was planned, or the whole table if its row counts show differences elsewhere."""
    log.info("%s: %s: %s", table.full_name, plan.part.name, plan.why)
    work = night.work.on(main.stage, table, plan.part)
    (outcome,) = compare_passes(work, lambda: _caveats(work.run, main))
    if not outcome.elsewhere:
        return plan, outcome
    again = NightPlan(WHOLE, WHOLE_NIGHT, "its row counts differ outside the part that was compared")
    return _compare(night, main, table, again)


def _caveats(run: Run, main: Main) -> CaveatsOf:
    of_letters = letter_caveats(run, {})
    return lambda outcome: (*of_letters(outcome), *main.caveats(outcome))


def _topic_state(work: Work, table: Table) -> TopicState | None:
    """The table's topic before anything is compared: later events are examined the next night."""
    name = work.systems.events.routing.topic_of(table.full_name)
    return work.run.clients.transport.topic_states([name]).get(name)


def _seen(night: NightRun, table: Table, stage: Stage, state: TopicState | None) -> Seen:
    """What is known about the table before it is compared."""
    work, known = night.work, night.known.get(table.full_name)
    sink, place = work.run.clients.sink, night.work.place(table)
    rows = sink.row_count(*place, stage.base_head) or 0
    if table.full_name in night.cascades:
        return Seen(odd="rows of it change by foreign keys, which this server does not log", rows=rows)
    if is_rebuilt(*_ids(night, table, place)):
        return Seen(odd="it was truncated or rebuilt since it was applied last", rows=rows)
    quiet = known is not None and state is not None and known.has_no_event_since(state)
    if doubt := rollback_doubt(night.xa.get(table.full_name), night.work.xa, events=not quiet):
        return Seen(odd=doubt, rows=rows)
    if (other := sink.facts(*place).other) is not None:
        return Seen(odd=f"another writer than this pipeline made commit {other.version} on its main", rows=rows)
    if table.keyless or known is None or state is None or not known.covers(state):
        return Seen(rows=rows)
    ranges = {p: (known.ends[str(p)], end) for p, (_, end) in state.partitions.items()}
    raw = work.systems.topics.read(sibling(work.spark, SMALL_BATCH), {state.name: ranges})
    touched = touched_leaves(raw, table, work.systems.events, known.scheme)
    return Seen(touched=touched, rows=rows)


def _ids(night: NightRun, table: Table, place: tuple[str, str]) -> tuple[str, str | None]:
    """The table's id when it was applied last, and now."""
    stamp = Applied.from_summary(night.work.staging.stamped_summary(*place))
    return stamp.table_id if stamp else "", night.table_ids.get(table.full_name)


def _keep(
    night: NightRun, plan: NightPlan, state: TopicState | None, outcome: Outcome, report: TableReport
) -> TableReport:
    """Record the comparison for the next night and in this run's ledger; returns the report."""
    work, table = night.work, outcome.subject.table
    known = night.known.get(table.full_name)
    if plan.whole or known is None:
        by = work.systems.reader.key_hash
        scheme, low, high = first_check(
            table, outcome.source_rows, work.systems.reader.bounds(table), night.leaf_rows, by
        )
        rows = outcome.source_rows
    else:
        scheme, low, high, rows = known.scheme, known.low, known.high, known.rows
    at = night.now.isoformat(timespec="seconds")
    shares = {**(known.shares if known else {}), **{str(share): at for share in plan.shares}}
    topic = state or TopicState("", "", {})
    ends = {str(p): end for p, (_, end) in topic.partitions.items()}
    verdict, run_id = str(report.verdict), work.run.run_id
    check = Checked(scheme, low, high, rows, shares, topic.id, ends, table.fingerprint, verdict, at, run_id)
    repair = RepairPlan.of(table, outcome.tally, outcome.sink_rows)
    result = {**sparse(report), "compared": plan.part.name, "why": plan.why}
    plans = {"plan": repair.to_json()} if repair.keys and report.verdict is Verdict.MISMATCH else {}
    control = work.run.clients.control
    control.check_done(work.run.run_id, table.full_name, check.to_json(), {**result, **plans})
    control.compared(work.xa, {table.full_name: report.verdict})
    store_json(work.run, f"keys-{file_part(table.full_name)}.json", repair.actions_to_json(table))
    return report


def _facts_file(table: str) -> str:
    return f"expectations-{file_part(table)}.json"


def _page(run: Run, tables: Iterable[str]) -> str:
    """Make the page about what was counted in all tables, by an earlier try of this run too; returns where it is."""
    reports = ReportStore(run.report_dir)
    files = for_each(lambda name: reports.json(run.pipeline.name, run.run_id, _facts_file(name)), tuple(sorted(tables)))
    data_docs.keep_facts(report_folder(run), [read(Counted, one) for one in files if one])
    data_docs.make_page(reports, run.pipeline.name, run.run_id)
    return f"{report_folder(run)}/{data_docs.FOLDER}/index.html"


def _evidence(report: TableReport) -> str:
    """One line about a table for the report."""
    counts = f"{report.missing} missing, {report.ghosts} ghosts, {report.different} different"
    return f"{report.verdict}: {counts}" + (f"; {'; '.join(report.samples)}" if report.samples else "")
