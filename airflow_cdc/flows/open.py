"""Step 3, first half: take the lease and write the open recovery, before anything is changed (INV 1)."""

from __future__ import annotations

from airflow_cdc.core.epochs import SOUND_POSITION
from airflow_cdc.core.errors import ConfigError, LeaseHeldError, RecoveryOpenError
from airflow_cdc.core.lease import LEASE_SECONDS
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.core.recovery import Decision
from airflow_cdc.decisions.diagnosis.strategy import POSITION_ONLY
from airflow_cdc.flows import replica
from airflow_cdc.flows.lease import ended_by
from airflow_cdc.flows.recoverable import refuse_unrecoverable
from airflow_cdc.flows.recovery import current
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.flows.stages import require_stages
from airflow_cdc.kinds import read_position

APPLY_ENDS_SECONDS = 300.0


@step("open_recovery")
def open_recovery(run: Run, decision: Decision) -> Facts:
    """Take the lease and open (or take over) the recovery that `decision` planned.

    Safe to run again: the epoch of a recovery rises once. A recovery left open by a dead run is taken over
    with its epoch, watermark and backups. Waits for an apply under way. Raises LeaseHeldError
    while another live recovery has the pipeline; SchemaError for a table that the connector filters or masks (INV 21),
    or whose values its events don't carry (INV 31); SinkError if the sink can hold no stage; ConfigError for a table that
    apply would refuse (INV 35), or if NULLs would arrive as defaults and the policy does not let the recovery set the
    converter.
    """
    run.pipeline.check_sink("a recovery")
    control, strategy = run.clients.control, decision.strategy
    if strategy not in POSITION_ONLY:
        refuse_unrecoverable(run, decision.tables)
        require_stages(run)
    poll_until(lambda: _leased(run), timeout=APPLY_ENDS_SECONDS, interval=0.5, what="the pipeline's lease to be free")
    _frozen(run, decision)
    try:
        control.open_recovery(
            run.run_id,
            tables=list(decision.tables),
            problem=decision.problem,
            strategy=strategy,
            pipeline_hash=run.pipeline.hash,
            agreed=decision.agreed,
            raises=strategy not in POSITION_ONLY,
            moves=decision.problem not in SOUND_POSITION,
        )
    except RecoveryOpenError:
        control.take_over(run.run_id, read_position)
    if current(run).strategy in POSITION_ONLY and strategy not in POSITION_ONLY:
        replica.abandon(run)
        control.supersede(decision, read_position)
    opened = current(run)
    return {"epoch": opened.epoch, "tables": list(opened.tables), "taken_over_from": opened.taken_over_from or None}


def _leased(run: Run) -> bool | None:
    """Take the lease, or wait for its holder: an apply under way releases it soon."""
    try:
        run.clients.control.acquire(run.run_id, LEASE_SECONDS, dag_id=run.dag_id, ended=ended_by(run.lives))
    except LeaseHeldError as held:
        if run.clients.control.facts().recovery is not None:
            raise  # another recovery, which is alive
        raise NotYet(str(held)) from held
    return True


def _frozen(run: Run, decision: Decision) -> None:
    """Check that the recovered pipeline still has the definition that was diagnosed."""
    if decision.pipeline_hash != run.pipeline.hash:
        raise ConfigError(
            "pipelines.yaml changed since the diagnosis of this run",
            where=run.where,
            todo="Clear the task diagnose, so that the plan is made for the new definition.",
        )
