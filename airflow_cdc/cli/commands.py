"""The commands, except those about offsets."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from airflow_cdc.cli import reports, trigger
from airflow_cdc.cli.checks import airflow_checks, on_our_spark, pipeline_airflow_checks
from airflow_cdc.cli.outcome import SHOWN, THROUGH, report_rows, show
from airflow_cdc.cli.progress import telling
from airflow_cdc.cli.run import command, emit, pairs, pipeline_of, run_of, tables_of
from airflow_cdc.config import settings
from airflow_cdc.config.registry import get_pipeline, load_registry
from airflow_cdc.core.check import Check
from airflow_cdc.core.codec import plain, sparse
from airflow_cdc.core.errors import CdcError, ConfigError, UnknownStateError
from airflow_cdc.core.observation import Observation
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.report import RecoveryReport, Verdict
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.decisions.diagnosis.diagnose import diagnose as diagnosis_of
from airflow_cdc.decisions.diagnosis.strategy import AUTO, FULL, STRATEGIES, Plan, check_strategy, make_plan
from airflow_cdc.flows.abandon import abandon as abandon_recovery
from airflow_cdc.flows.decide import looked_through
from airflow_cdc.flows.doctor import doctor_installation, doctor_pipeline
from airflow_cdc.flows.observe import observe, store_observation
from airflow_cdc.kinds import jars_for, rules_for
from airflow_cdc.links import runbook_url
from airflow_cdc.names import RECOVERY_DAG_ID, dag_id_for
from airflow_cdc.operators.base import open_run, spark_connection
from airflow_cdc.reports.bars import as_text, time_bars


@command
def doctor(args: Namespace) -> int:
    """0 all good (warnings allowed), 1 something is bad, 3 something could not be read, 2 the registry is unusable."""
    mirrored = _mirrored(args)
    needs = () if mirrored is None else jars_for(filter(on_our_spark, mirrored)) if mirrored else None
    drivers = mirrored is None or any(one.spark.mode != "connect" for one in mirrored)
    checks = [*doctor_installation(mirrors=drivers), *airflow_checks(needs), *pipeline_checks(args)]
    emit(args, [check.to_json() for check in checks])
    return doctor_status(checks)


def doctor_status(checks: Iterable[Check]) -> int:
    """The exit status for these checks."""
    states = {check.state for check in checks}
    return 1 if "bad" in states else 3 if "unknown" in states else 0


def _mirrored(args: Namespace) -> Sequence[Pipeline] | None:
    """The declared pipelines that have a sink; None for a registry that cannot be read: the checks of its pipelines say it."""
    try:
        pipelines = load_registry(settings.registry_path(args.registry)).values()
    except CdcError:
        return None
    return [pipeline for pipeline in pipelines if pipeline.has_sink]


def pipeline_checks(args: Namespace) -> Iterator[Check]:
    """The checks of the pipelines that the command names."""
    path = settings.registry_path(args.registry)
    try:
        pipelines = load_registry(path)
        chosen = [get_pipeline(pipelines, name, where=str(path)) for name in args.pipeline or pipelines]
    except CdcError as error:
        yield _bad("registry", "pipelines.yaml", error)
        return
    for pipeline in chosen:
        if pipeline.has_sink:
            if pipeline.spark.mode != "connect":
                yield _spark(pipeline)
            yield from pipeline_airflow_checks(pipeline)
        try:
            yield from doctor_pipeline(open_run(pipeline, "doctor"))
        except CdcError as error:
            yield _bad(pipeline.name, "connections", error)


def _bad(subject: str, name: str, error: CdcError) -> Check:
    where = f" ({error.where})" if error.where else ""
    return Check(subject, name, "bad", f"{error.what}{where}", error.todo)


def _spark(pipeline: Pipeline) -> Check:
    conn_id = pipeline.spark.conn_id
    try:
        conn = spark_connection(conn_id, pipeline.name)
    except ConfigError as error:
        return Check(pipeline.name, "spark", "bad", error.what, error.todo)
    if conn.extra_dejson.get("deploy-mode") == "cluster":
        return Check(pipeline.name, "spark", "bad", f"{conn_id}: deploy-mode is cluster", "Set deploy-mode to client.")
    return Check(pipeline.name, "spark", "ok", f"{conn_id}: {conn.host}")


@command
def pipelines(args: Namespace) -> int:
    """What the registry declares."""
    registry = load_registry(settings.registry_path(args.registry))
    emit(
        args, [pipeline.to_json() for pipeline in registry.values()], [_row(pipeline) for pipeline in registry.values()]
    )
    return 0


def _row(pipeline: Pipeline) -> dict[str, str]:
    return {
        "pipeline": pipeline.name,
        "source": f"{pipeline.source.kind} {pipeline.source.conn_id}",
        "tables": ", ".join(pipeline.source.tables),
        "connector": f"{pipeline.connector.kind} {pipeline.connector.name}",
        "sink": f"{pipeline.sink.kind} {pipeline.sink.where}".strip(),
        "writer": pipeline.sink.writer,
    }


def _seen(args: Namespace) -> tuple[Observation, Diagnosis]:
    """Observe; the ledger belongs to runs and stays as it is, the page is told."""
    run = run_of(args)
    observation = observe(run)
    diagnosis = diagnosis_of(observation, rules_for(run.pipeline))
    store_observation(run, observation, diagnosis)
    return observation, diagnosis


@command
def diagnose(args: Namespace) -> int:
    """0 healthy, 3 unknown, 1 any other problem."""
    observation, diagnosis = _seen(args)
    recovery_plan = make_plan(diagnosis, observation.pipeline.policy, observation, rules_for(observation.pipeline))
    head = {"pipeline": args.pipeline, "taken_at": observation.taken_at}
    runbook = runbook_url(diagnosis.code)
    data = {**head, **plain(diagnosis), "runbook": runbook, "plan": plain(recovery_plan)}
    emit(
        args,
        data,
        pairs(
            {"pipeline": args.pipeline, "problem": diagnosis.code, "meaning": diagnosis.description}
            | dict(diagnosis.evidence)
            | {f"also {other.code}": other.text for other in diagnosis.others}
            | {f"note {n}": remark for n, remark in enumerate(diagnosis.remarks, 1)}
            | {
                "plan": f"refused: {recovery_plan.reason}"
                if recovery_plan.refused
                else f"{recovery_plan.strategy}: {recovery_plan.reason}"
            }
            | {"data loss": recovery_plan.data_loss, "reading takes": _duration(recovery_plan), "runbook": runbook}
        ),
    )
    return diagnosis.exit_status


def _duration(recovery_plan: Plan) -> str:
    known = "not known" if recovery_plan.seconds is None else f"{recovery_plan.seconds:.0f} s, like last time"
    fits = {True: "; the log is kept longer", False: "; THE LOG IS PURGED BEFORE THAT", None: ""}[
        recovery_plan.fits_retention
    ]
    return f"{known}{fits}"


@command
def plan(args: Namespace) -> int:
    """As `diagnose`."""
    observation, diagnosis = _seen(args)
    strategy = None if args.strategy == AUTO else args.strategy
    made = make_plan(
        diagnosis, observation.pipeline.policy, observation, rules_for(observation.pipeline), asked=strategy
    )
    recovery_plan = looked_through(run_of(args), made, observation.pipeline.source.tables)
    data = {"pipeline": args.pipeline, "problem": diagnosis.code, **plain(recovery_plan)}
    emit(args, data, pairs({**data, "steps": " → ".join(recovery_plan.steps)}))
    return diagnosis.exit_status


@command
def recover(args: Namespace) -> int:
    """Trigger cdc_recovery. With --wait: 0 done or nothing to do, 1 failed or rejected, 3 inconclusive; else 0 triggered."""
    pipeline = pipeline_of(args)
    tables_of(args, pipeline)
    if args.strategy != AUTO:
        check_strategy(args.strategy, where=f"pipeline {pipeline.name}")
    if not STRATEGIES.get(args.strategy, STRATEGIES[FULL]).sinkless:
        pipeline.check_sink("a recovery")
    conf = {
        "pipeline": pipeline.name,
        "strategy": args.strategy,
        "tables": args.table or [],
        "approved": args.yes,
        "note": args.note,
    }
    dag_id = dag_id_for(pipeline, RECOVERY_DAG_ID)
    run_id = trigger.start(dag_id, conf)
    if not args.wait:
        emit(args, {"dag_id": dag_id, "run_id": run_id}, [{"dag_id": dag_id, "run_id": run_id}])
        return 0
    with telling() as teller:
        run_id, ended = trigger.follow(run_id, args.timeout, teller=teller, dag_id=dag_id)
    report = reports.load(pipeline.name, run_id)
    show(args, run_id, ended, report)
    return ended.exit_status(report)


@command
def abandon(args: Namespace) -> int:
    """0 once it is given up. The connector is left as it is; what is printed says how that is."""
    from airflow_cdc.cli.permission import changer  # brings in Airflow's web server: not for commands that only read

    run = run_of(args)
    done = abandon_recovery(run, args.table or (), who=changer(run.pipeline), reason=args.reason)
    emit(args, done, pairs(done))
    return 0


@command
def proof(args: Namespace) -> int:
    """What the last report says: 0 MATCH, 1 MISMATCH, 3 INCONCLUSIVE or none. Reads stored reports only.

    A table that an earlier check found to differ is said, too, and counts as MISMATCH, until a run has proven it equal.
    """
    pipeline = pipeline_of(args)
    pipeline.check_sink("a proof")
    run_id = args.run_id or reports.newest(pipeline.name)
    report = reports.load(pipeline.name, run_id) if run_id else None
    if report is None:
        raise UnknownStateError(
            "there is no report",
            where=reports.folder(pipeline.name, run_id or ""),
            todo=f"Run: airflow cdc recover {pipeline.name}",
        )
    if args.timeline:
        emit(args, [sparse(step) for step in report.steps], as_text(time_bars(report.steps)))
        return report.exit_status
    known = () if args.run_id else _known_before(report, args.table or pipeline.source.tables)
    if args.table:
        report = _of_tables(report, tables_of(args, pipeline), known)
    earlier = {"known_to_differ": list(known)} if known else {}
    emit(args, report.to_json() | earlier, [*report_rows(report), *map(_earlier_row, known)])
    return 1 if known else report.exit_status


def _known_before(report: RecoveryReport, tables: Collection[str]) -> tuple[str, ...]:
    """Those of `tables` that an earlier run found to differ, and `report` does not say so by itself."""
    differing = {one.table for one in report.tables if one.verdict is Verdict.MISMATCH}
    return tuple(name for name in reports.differs(report.pipeline) if name in tables and name not in differing)


def _of_tables(report: RecoveryReport, tables: Collection[str], known: Collection[str]) -> RecoveryReport:
    """The report reduced to these tables, with their verdict. Raises UnknownStateError for one that was not compared.

    `known`: tables that an earlier run found to differ.
    """
    if absent := sorted(set(tables) - {one.table for one in report.tables} - set(known)):
        raise UnknownStateError(
            f"{absent[0]} was not compared",
            where=f"run {report.run_id}",
            todo="Name another run by --run-id, or run: airflow cdc repair PIPELINE --table TABLE --dry-run",
        )
    return replace(report, tables=tuple(one for one in report.tables if one.table in tables), verdict=None)


def _earlier_row(table: str) -> dict[str, object]:
    return {
        **dict.fromkeys((*SHOWN, THROUGH), "-"),
        "table": table,
        "verdict": f"{Verdict.MISMATCH} (an earlier check)",
    }
