"""Step 9: main moves to exactly the snapshot that was verified, by compare-and-set on the head it was built from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from airflow_cdc.core.errors import NotAgreedError, StaleHeadError, VerificationError
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.core.recovery import OpenRecovery, VerifiedTable
from airflow_cdc.core.report import Verdict
from airflow_cdc.decisions.compare.repair import NEVER
from airflow_cdc.decisions.removal import Removal, refusals
from airflow_cdc.flows.recovery import change, current, give_up, verify_again
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.flows.side_by_side import for_each
from airflow_cdc.flows.stages import letters_of, staging_of


@step("publish", leased=True)
def publish(run: Run) -> Facts:
    """Publish every verified table; nothing is published before all are verified (policy `publish: all`).

    Safe to run again after a kill: tables that are already on main are skipped (INV 4). Raises NotAgreedError for a
    table that would lose more rows than the policy or a person allowed (INV 36).
    """
    recovery = current(run)
    if run.pipeline.corrected is not Corrected.STAGED:
        return _proven(run, recovery)
    ready = _ready(run, recovery.unpublished, recovery.verified)
    refused = _refused(run, recovery, ready)
    if refused and run.pipeline.policy.publish == "all":
        raise not_agreed(run, refused)
    published = _publish_all(run, recovery, [table for table in ready if table not in refused])
    mirror(run, published)
    _resolve_letters(run, recovery, published)
    if refused:
        raise not_agreed(run, refused)
    if left := sorted(set(recovery.tables) - set(published)):
        verdicts = [recovery.unproven[table] for table in left if table in recovery.unproven]
        raise VerificationError(
            f"not published, because they are not MATCH: {', '.join(left)}",
            where=run.where,
            todo=f"{_READ_REPORT} {verify_again(run, verdicts)} To continue without them, run: {give_up(run, left)}",
        )
    return {"published": published}


def publish_read(run: Run) -> None:
    """Publish the tables as they were read, for a connector that writes them itself: it must find them when it starts.

    The connector is stopped, so nothing else writes to main; what it sends again from W on then makes the rows one state.
    They are compared afterwards. Safe to run again. Raises NotAgreedError as `publish` does.
    """
    recovery = current(run)
    refused = _refused(run, recovery, recovery.unpublished)
    if refused:
        raise not_agreed(run, refused)
    mirror(run, _publish_all(run, recovery, recovery.unpublished))


def _proven(run: Run, recovery: OpenRecovery) -> Facts:
    """The tables that the connector writes itself: they are on main, and must be proven."""
    if bad := recovery.unproven:
        raise VerificationError(
            f"not proven: {', '.join(f'{table} is {verdict}' for table, verdict in bad.items())}",
            where=run.where,
            todo="Readers see these tables, and the connector writes to them. Clear the task verify to compare them again.",
            verdict="MISMATCH" if "MISMATCH" in bad.values() else "INCONCLUSIVE",
        )
    if run.pipeline.corrected is Corrected.THROUGH_TOPICS:
        # nothing is published: the rows have been where their readers read since they were corrected
        recovery = change(run, lambda now: now.published_as(dict.fromkeys(recovery.tables, 0)))
    return {"published": dict(recovery.published)}


def _publish_all(run: Run, recovery: OpenRecovery, tables: Sequence[str]) -> dict[str, int]:
    """Publish the tables, some at a time; returns table → snapshot, including tables published before.

    The recovery is updated whenever their number has doubled. One update per table would write its document as often as
    it has tables, which takes hours for 2,000. The next try finds tables on main that the recovery does not list yet.
    """
    published, left = dict(recovery.published), list(tables)

    def one(table: str) -> int:
        return _publish_one(run, recovery, table)

    def noted(now: OpenRecovery) -> OpenRecovery:
        return now.published_as(published)

    while left:
        some, left = left[: len(published) or 1], left[len(published) or 1 :]
        published |= dict(zip(some, for_each(one, some), strict=True))
        change(run, noted)
    return published


_READ_REPORT = "The report lists the differing keys; main was not changed."


def _ready(run: Run, tables: Sequence[str], verified: Mapping[str, VerifiedTable]) -> list[str]:
    verdicts = {table: verified[table].verdict if table in verified else "not verified" for table in tables}
    good = [table for table, verdict in verdicts.items() if verdict is Verdict.MATCH]
    bad = {table: verdict for table, verdict in verdicts.items() if verdict is not Verdict.MATCH}
    if bad and run.pipeline.policy.publish == "all":
        worst = "MISMATCH" if "MISMATCH" in bad.values() else "INCONCLUSIVE"
        raise VerificationError(
            f"nothing is published: {', '.join(f'{table} is {verdict}' for table, verdict in bad.items())}",
            where=run.where,
            todo=f"{_READ_REPORT} {verify_again(run, bad.values())}",
            verdict=worst,
        )
    return good


def _refused(run: Run, recovery: OpenRecovery, ready: Sequence[str]) -> dict[str, str]:
    """Table → why it would lose too many rows, by the counts that the verification proved.

    The plan did not know rows that could not be counted in time, or that were deleted since. A run triggered with
    `approved`, or a policy that asks nobody, allows any number.
    """
    policy = run.pipeline.policy
    if policy.approval == NEVER or run.options.approved:
        return {}
    namespace = run.pipeline.sink.namespace

    def removal(table: str) -> Removal:
        agreed = recovery.agreed.get(table, 0)
        if run.pipeline.corrected is Corrected.BEFORE_START:
            staged = recovery.stages[table]
            return Removal(table, staged.before, staged.rows, agreed)
        rows = run.clients.sink.facts(namespace, run.pipeline.sink_table(table)).rows
        return Removal(table, rows, recovery.verified[table].report.source_rows, agreed)

    return refusals(policy.max_deletes, map(removal, ready))


def not_agreed(run: Run, refused: Mapping[str, str]) -> NotAgreedError:
    """The error about rows that nobody allowed to be removed, with the two ways to continue."""
    name = run.pipeline.name
    return NotAgreedError(
        f"not published: {'; '.join(refused.values())}",
        where=run.where,
        todo="Main was not changed. If the source is right, finish this recovery with your approval (airflow cdc recover "
        f"{name} --yes, or trigger cdc_recovery with Approved ticked): no table is re-read. Otherwise give up "
        f"the recovery: {give_up(run)}.",
        tables=tuple(refused),
    )


def _publish_one(run: Run, recovery: OpenRecovery, table: str) -> int:
    lake, namespace, name = staging_of(run), run.pipeline.sink.namespace, run.pipeline.sink_table(table)
    label, snapshot = _chosen(run, recovery, table)
    stage = lake.open_stage(namespace, name, label)
    # if only compaction moved main in between, no row changed and the snapshot is still right
    try:
        lake.publish(stage, snapshot, stage.base_head, over_compaction=True)
    except StaleHeadError as error:
        error.todo = (
            "Find out who writes to the table, then clear the task recover and all after it, to read the table again."
        )
        raise
    return snapshot


def _chosen(run: Run, recovery: OpenRecovery, table: str) -> tuple[str, int]:
    """The stage's label, and the snapshot in it: the verified one, or the one that was read."""
    staged = recovery.stages[table]
    if run.pipeline.corrected is Corrected.BEFORE_START:
        return staged.label, staged.snapshot_id
    verified = recovery.verified[table]
    return verified.stage or staged.label, verified.snapshot_id


def _resolve_letters(run: Run, recovery: OpenRecovery, published: Mapping[str, int]) -> None:
    """Events before the fence are never applied again, because their rows were re-read with their table."""
    letters_of(run).resolve_letters_before(run.pipeline.name, dict.fromkeys(published, recovery.fence or {}))


def mirror(run: Run, published: Iterable[str]) -> None:
    """Copy the newest stamps to the control table too, because snapshot expiry may remove the stamped snapshot."""
    lake, namespace = staging_of(run), run.pipeline.sink.namespace
    stamps = {table: lake.stamp(namespace, run.pipeline.sink_table(table)) for table in published}
    run.clients.control.mirror_stamps({table: stamp for table, stamp in stamps.items() if stamp})
