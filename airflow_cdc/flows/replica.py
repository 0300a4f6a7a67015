"""The strategies that move a position but no rows: a detour to a replica and back, or a move to a promoted server.

`detour` and `return_to_source` share the open recovery, so each may be killed anywhere and run again. The connector's
own configuration shows the changed settings, and the control table shows the written offset (INV 27).
"""

from __future__ import annotations

from airflow_cdc.control.document import CLOSED
from airflow_cdc.core.errors import (
    CdcError,
    ConfigError,
    OffsetRejectedError,
    SchemaError,
    SourceError,
)
from airflow_cdc.core.lease import LEASE_SECONDS
from airflow_cdc.core.offset import RawOffset
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.core.ports import Replication
from airflow_cdc.core.position import Position
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.core.text import shorten
from airflow_cdc.core.transactions import Transactions, come_back, own_transactions, start_there
from airflow_cdc.flows import connector
from airflow_cdc.flows.capture import defined, settings
from airflow_cdc.flows.lease import kept
from airflow_cdc.flows.offsets import committed, read, stored_value, write
from airflow_cdc.flows.reached import not_failed, wait_past
from airflow_cdc.flows.recovery import change, current
from airflow_cdc.flows.reset_offset import backup
from airflow_cdc.flows.run import Facts, Run, named_replicas, now_iso, replication, step

SNAPSHOT_BY_NAME = "Or trigger cdc_recovery with the strategy full_snapshot, which first restores the connector."


@step("detour_connector", leased=True)
def detour(run: Run) -> Facts:
    """Let the connector read from a replica until it has all that the replica has now and all that the source purged.

    Only the address changes, and the login if the two connections have different ones. Safe to
    run again: it continues from the connector's own offset. Raises SourceError if no named replica can stand in.
    """
    if _is_back(run):
        return {"kept": True}
    if not _away(run) or not run.clients.connector.state(run.pipeline.connector.name).running:
        _start_at_replica(run)
    conn_id, replica = _replica(run)
    read = _read_all(run, replica)
    return {
        "replica": conn_id,
        "server": run.clients.replicas[conn_id].where,
        "read": shorten(str(read)),
        "kept": False,
    }


@step("return_connector")
def return_to_source(run: Run) -> Facts:
    """Let the connector continue at the source after all its transactions that it has read; then close the recovery.

    The order is offset, address, start: the connector stays stopped until the offset is proven. Raises
    OffsetRejectedError if the source lacks transactions that were read from it, SourceError if it has purged more.
    """
    control = run.clients.control
    if control.ledger_get(run.run_id).get("recovery") == CLOSED:  # killed after closing
        control.release(run.run_id)
        return {"closed": True}
    with kept(control, run.run_id, LEASE_SECONDS):
        if not current(run).written_at:
            _write_return(run)
        _point_back(run)
        _start(run)
        reached = wait_past(run, run.clients.source.position())
    return {**_close(run), "offset": dict(reached.raw)}


def abandon(run: Run) -> None:
    """Undo an open detour before another strategy replaces it: stop, restore the address and the first offset."""
    run.clients.connector.stop(run.pipeline.connector.name, timeout=connector.STOP_SECONDS)
    grew = _history_grew(run)
    before = change(run, lambda now: now.doubts_history(grew)).backup
    _point_back(run)
    connector.restore(run)
    if before is not None and before.value:
        write(run, before.key, stored_value(run), before.value)


# ---- on the way there --------------------------------------------------------------------------


def _is_back(run: Run) -> bool:
    """Whether the return has begun and can continue: if the source has purged more in the meantime, another round is needed."""
    if not current(run).written_at:
        return False
    if replication(run).purged().issubset(_read_set(run)):
        return True
    change(run, OpenRecovery.sets_out_again)
    return False


def _start_at_replica(run: Run) -> None:
    """Stop the connector, write and read back its offset and configuration for the replica, and start it there."""
    name = run.pipeline.connector.name
    run.clients.connector.stop(name, timeout=connector.STOP_SECONDS)
    key = backup(run, current(run)).key
    _conn_id, replica = _replica(run)
    theirs = replica.executed()  # read first: what the source executes in between is not the replica's own
    own = own_transactions(theirs, replication(run).executed())
    skipped = _own(run)  # of all rounds: better to send a transaction again than never
    start = start_there(_read_set(run), own, skipped)
    size = _history_size(run)
    change(run, lambda now: now.set_out(str(own | skipped), size))
    _write_set(run, key, replica.from_the_oldest(start))
    connector.change_settings(run, settings(run).quickened)
    _point_at(run, replica)
    run.clients.connector.resume(name)
    run.clients.connector.wait_running(name, timeout=connector.RUNNING_SECONDS)


def _replica(run: Run) -> tuple[str, Replication]:
    """The replica of this detour: the one it started with, else the first that can stand in for the source."""
    conn_id = current(run).replica.conn_id
    if not conn_id:
        conn_id = _choose(run)
        change(run, lambda now: now.reads_at(conn_id))
    if conn_id not in (replicas := named_replicas(run)):
        raise ConfigError(
            f"the detour reads from {conn_id}, which source.replicas no longer lists",
            where=run.where,
            todo=f"List it again, then clear the task detour_connector. {SNAPSHOT_BY_NAME}",
        )
    return conn_id, replicas[conn_id]


def _choose(run: Run) -> str:
    """Check again with the connector stopped, because the replica may also have purged between plan and start."""
    stored, source = _read_set(run), run.clients.source.facts()
    faults_by_replica = {}
    for conn_id, replica in named_replicas(run).items():
        try:
            faults = replica.faults(conn_id, source, stored)
        except CdcError as error:
            faults = (str(error),)
        if not faults:
            return conn_id
        faults_by_replica[conn_id] = ", ".join(faults)
    raise SourceError(
        f"no replica can stand in for the source: {'; '.join(f'{k}: {v}' for k, v in faults_by_replica.items()) or 'none is named'}",
        where=run.where,
        todo="Fix one of them, then clear the task detour_connector. " + SNAPSHOT_BY_NAME,
    )


def _read_all(run: Run, replica: Replication) -> Transactions:
    """Wait until the connector has read everything that the replica has now and that the source has purged by then."""
    executed = replica.executed()

    def probe() -> Transactions:
        read = _covered(run, replica)
        if (left := (executed | replication(run).purged()) - read).is_empty:
            return read
        not_failed(run, "detour_connector")
        raise NotYet(f"{left.count} transactions to read")

    return poll_until(
        probe, timeout=run.pipeline.policy.max_duration, interval=0.5, what="the connector to catch up at the replica"
    )


def _covered(run: Run, replica: Replication) -> Transactions:
    """What the connector has read at the replica."""
    end = replica.log_end()  # read before the offset
    offset = committed(run)
    read = replica.read_by(offset.position if offset else None, end)
    if read is None:
        raise NotYet("no offset with GTIDs yet")
    return read


# ---- on the way back ---------------------------------------------------------------------------


def _write_return(run: Run) -> None:
    """Stop the connector and write its read set, without the replica's own transactions, as the offset (INV 27)."""
    run.clients.connector.stop(run.pipeline.connector.name, timeout=connector.STOP_SECONDS)
    before = backup(run, current(run))
    read, source = _read_so_far(run), replication(run)
    back = come_back(read, source.executed(under_way=False), _own(run))
    _check_return(run, back, _backed_up(run, before.value))
    doubted = not (read - back).is_empty and _history_grew(run)
    value = _write_set(run, before.key, source.after(back))
    since, at = connector.history(run).newest_ms if doubted else None, now_iso()
    change(run, lambda now: now.returned(value, at, str(read - back), since))


def _backed_up(run: Run, value: RawOffset | None) -> Transactions:
    """The transactions that the connector had read when the recovery began; none if it had no offset."""
    offset, source = read(run, value) if value else None, replication(run)
    return source.read_by(offset.position if offset else None) or source.known("")


def _own(run: Run) -> Transactions:
    """The replica's own transactions that counted as read at the start of any round of this detour."""
    return replication(run).known(current(run).replica.own)


def _read_so_far(run: Run) -> Transactions:
    """What the connector has read, stored before the offset is written: then its position is another server's."""
    transactions = current(run).replica.read
    if transactions is not None:
        return replication(run).known(transactions)
    read = _covered(run, _replica(run)[1]) if _away(run) else _read_set(run)
    change(run, lambda now: now.read_there(str(read)))
    return read


def _check_return(run: Run, back: Transactions, before: Transactions) -> None:
    if not (gone := before - back).is_empty:
        raise OffsetRejectedError(
            f"the source does not have {shorten(str(gone))}, which the connector had read before",
            where=run.where,
            todo="The source lost transactions, or is another server: trigger cdc_recovery with full_snapshot.",
            reasons=("GTID_NOT_CONTAINED",),
        )
    if not (left := replication(run).purged() - back).is_empty:
        raise SourceError(
            f"the source has purged {shorten(str(left))}, which the connector has not read yet",
            where=run.where,
            todo="Let it keep its log longer, then clear the task detour_connector and all after it.",
        )


def _write_set(run: Run, key: RawOffset, position: Position) -> RawOffset:
    """Write a set as the offset and prove it by reading it back. A partly read transaction is read again whole."""
    stored = stored_value(run)
    written = read(run, stored).written if stored else None
    value = run.clients.connector.codec.at(position, written)
    write(run, key, stored, value)
    return value


def _start(run: Run) -> None:
    """Start the connector at the source. If its schema history is in doubt, rebuild the history first."""
    name, since = run.pipeline.connector.name, current(run).history.since
    if since is not None:
        _doubt_history(run)
    run.clients.connector.resume(name)
    run.clients.connector.wait_running(name, timeout=connector.RUNNING_SECONDS)
    if since is not None:
        connector.history_rebuilt(run, since, list(run.pipeline.source.tables), "return_connector")
        # the mode is restored, and events sent meanwhile are sent again with the new definitions
        connector.from_the_start_again(run, current(run))
        change(run, OpenRecovery.history_settled)


def _close(run: Run) -> Facts:
    connector.restore_settings(run)
    control, recovery = run.clients.control, current(run)
    control.note_server(run.clients.source.server())
    control.ledger_set(run.run_id, "document", recovery.to_json())
    control.close_recovery(run.run_id)
    control.release(run.run_id)
    return {"closed": True, "left_out": recovery.replica.left_out}


# ---- the connector -----------------------------------------------------------------------------


def _away(run: Run) -> bool:
    return run.clients.connector.is_away(run.pipeline.connector.name)


def _read_set(run: Run) -> Transactions:
    offset = committed(run)
    stored = replication(run).read_by(offset.position if offset else None)
    if stored is None:
        raise OffsetRejectedError(
            "the connector has no stored GTID set to continue from",
            where=run.where,
            todo="Trigger cdc_recovery with the strategy full_snapshot.",
        )
    return stored


def _point_at(run: Run, replica: Replication) -> None:
    """Change the address. Connect lets the connector test the new one before it accepts the configuration."""
    run.clients.connector.point_at(run.pipeline.connector.name, replica.login, replication(run).login)


def _point_back(run: Run) -> None:
    run.clients.connector.point_back(run.pipeline.connector.name)


# ---- the schema history ------------------------------------------------------------------------


def _history_grew(run: Run) -> bool:
    return current(run).replica.history_before not in (None, _history_size(run))


def _history_size(run: Run) -> int:
    topic = settings(run).history_topic
    state = run.clients.transport.topic_states([topic]).get(topic) if topic else None
    return sum(end for _begin, end in state.partitions.values()) if state else 0


def _doubt_history(run: Run) -> None:
    """Let the next start rebuild the schema history from the source's current definitions. The connector is stopped.

    Definitions that the connector recorded while the replica's own transactions were in its offset carry those GTIDs.
    At the source no offset covers these GTIDs, so a restart would skip the definitions and decode with older ones.
    """
    if stale := connector.history(run).differences(defined(run), server=settings(run).prefix):
        raise SchemaError(
            f"{', '.join(stale)} changed at the source after the position that the connector has read",
            where=run.where,
            todo="Trigger cdc_recovery with the strategy full_snapshot: it replaces the detour.",
        )
    connector.change_settings(run, run.clients.connector.rebuilding(run.pipeline.connector.name))
