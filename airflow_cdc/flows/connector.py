"""Steps 3 and 7: stop the connector; start it with the settings that the recovery needs, and see it stream past W."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from airflow_cdc.core.capture import TableDefinitions
from airflow_cdc.core.errors import ConnectorError, SchemaError
from airflow_cdc.core.offset import RawOffset
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.core.poll import NotYet, poll_until, poll_while_moving
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.core.table import Table
from airflow_cdc.flows.capture import defined, settings
from airflow_cdc.flows.null_defaults import set_converter
from airflow_cdc.flows.offsets import committed, stored_value, whole_transaction, write
from airflow_cdc.flows.reached import failures, not_failed, wait_past, wait_reading
from airflow_cdc.flows.recovery import change, current, new_watermark, watermark_of
from airflow_cdc.flows.run import Facts, Run, now_iso, step
from airflow_cdc.flows.watermark import still_there
from airflow_cdc.kinds import config_rules_of

log = logging.getLogger("airflow_cdc.connector")

STOP_SECONDS = 60.0
RUNNING_SECONDS = 120.0
RESTART_GRACE_SECONDS = 60.0


@step("stop_connector", leased=True)
def stop(run: Run) -> Facts:
    """Stop the connector and wait until it is STOPPED with zero tasks. It stays stopped until its offset is proven."""
    current(run)
    name = run.pipeline.connector.name
    before = run.clients.connector.state(name).state
    run.clients.connector.stop(name, timeout=STOP_SECONDS)
    change(run, OpenRecovery.stopped)
    return {"connector": name, "state_before": before, "state": "STOPPED"}


@step("resume_connector", leased=True)
def resume(run: Run) -> Facts:
    """Start the connector from the written offset and return when it continues from there and is past W (INV 38).

    If the schema history differed from the tables at W, it is rebuilt first, by one start in the mode
    that its kind names for it; that mode would rebuild at EVERY start, so it is switched back at once. A quiet table moves
    no offset by itself, so the run sets what moves it (INV 6), and `close` restores the setting. Raises SourceError if the log after the written offset was purged.
    """
    recovery = current(run)
    watermark = watermark_of(recovery, run)
    if not recovery.written_at:
        raise ConnectorError(
            "the offset of this recovery is not written yet: the connector stays stopped",
            where=run.where,
            todo="Clear the task reset_offset.",
        )
    with _purge_named(run, watermark):
        return _resumed(run, recovery, watermark)


def _resumed(run: Run, recovery: OpenRecovery, watermark: Watermark) -> Facts:
    name, rebuild = run.pipeline.connector.name, bool(recovery.history.differences)
    since = _doubted_since(run) if rebuild else 0
    # from an earlier try: resuming does not start a failed task; and an offset that somebody moved meanwhile skips changes
    if failures(run) or moved_since(run, recovery):
        _stop_at_w(run, recovery)
    set_converter(run, recovery.tables)
    change_settings(run, {**settings(run).quickened, **(run.clients.connector.rebuilding(name) if rebuild else {})})
    run.clients.connector.resume(name)
    run.clients.connector.wait_running(name, timeout=RUNNING_SECONDS)
    if rebuild:
        history_rebuilt(run, since, recovery.tables)
        from_the_start_again(run, recovery)
    shown = wait_reading(run, recovery.written or {})
    reached = _streaming(run, watermark)
    if recovery.offset_kept and not rebuild:
        _has_read_changes(run, recovery)
    at = now_iso()
    change(run, lambda now: now.resumed(at))
    return {
        "connector": name,
        "state": "RUNNING",
        "history_rebuilt": rebuild,
        "offset": dict(reached),
        "shown_by": shown,
    }


@contextmanager
def _purge_named(run: Run, watermark: Watermark) -> Iterator[None]:
    """If the connector fails because W's log was purged, restarts do not help: the error asks for a new W.

    The connector is not started from a W that is gone; a later purge shows as the connector's own failure.
    """

    def check() -> None:
        offset = committed(run)
        if current(run).offset_kept and offset is not None and offset.position != watermark.position:
            return  # it continues from before W; only its own failure can tell whether that log is still there
        if offset is None or offset.position == watermark.position or not offset.has_read(watermark):
            still_there(run, watermark, then="stop_connector")

    check()
    try:
        yield
    except ConnectorError:
        check()
        raise


@step("restart_connector")
def restart(run: Run) -> Facts:
    """Restart a failed connector, or start a stopped one, once; it must run and keep running, or this fails.

    A restart is answered before it happens, so a FAILED seen at first may be the old one: it counts only later.
    """
    name = run.pipeline.connector.name
    if run.clients.connector.state(name).state in ("STOPPED", "PAUSED"):
        run.clients.connector.resume(name)
    else:
        run.clients.connector.restart(name)
    poll_until(lambda: _restarted(run), timeout=RESTART_GRACE_SECONDS, what=f"connector {name} to restart")
    run.clients.connector.wait_running(name, timeout=RUNNING_SECONDS)
    return {"connector": name, "state": "RUNNING"}


def _restarted(run: Run) -> bool | None:
    now = run.clients.connector.state(run.pipeline.connector.name)
    if now.running:
        return True
    raise NotYet(", ".join((now.state, *(task.state for task in now.tasks))))


def change_settings(run: Run, wanted: Mapping[str, str]) -> None:
    """Set settings of the connector; each setting's value from before the recovery is stored (None: was absent).

    Only the changed settings are stored, because a connector's configuration
    holds credentials, which do not belong in the control table.
    """
    name = run.pipeline.connector.name
    config = run.clients.connector.raw_config(name)
    changes = {key: value for key, value in wanted.items() if config.get(key) != value}
    if not changes:
        return
    before = {key: config.get(key) for key in changes}
    change(run, lambda now: now.settings_saved(before))
    run.clients.connector.change_config(name, config, {**config, **changes})


def restore(run: Run, keys: Collection[str] | None = None) -> dict[str, str | None]:
    """Restore settings, all that this recovery changed or these `keys`, to their values before it. Safe to run again."""
    due = {key: value for key, value in current(run).settings_before.items() if keys is None or key in keys}
    if due:
        name = run.pipeline.connector.name
        config = run.clients.connector.raw_config(name)
        others = {key: value for key, value in config.items() if key not in due}
        before = {key: value for key, value in due.items() if value is not None}
        run.clients.connector.change_config(name, config, {**others, **before})
        change(run, lambda now: now.settings_restored(due))
    return due


def _stop_at_w(run: Run, recovery: OpenRecovery) -> None:
    """Stop the connector and set its offset to W again, so that it starts there whatever it has sent.

    After a restart alone it continues wherever it was. Seen on 3.6.1: a changed key becomes a delete and a create, and
    a connector stopped between the two counts the row as done and never sends the create.
    """
    run.clients.connector.stop(run.pipeline.connector.name, timeout=STOP_SECONDS)
    if recovery.backup is None or recovery.written is None:
        raise ConnectorError("no offset was written yet", where=run.where, todo="Clear the task reset_offset.")
    write(run, recovery.backup.key, recovery.written, recovery.written)


def moved_since(run: Run, recovery: OpenRecovery) -> bool:
    """Whether the offset of a stopped connector is not the one that this recovery wrote: it is written again.

    Not where the connector writes the tables itself: its offset is a state of its job, which shows in other words.
    """
    if recovery.written is None or recovery.offset_kept or run.pipeline.corrected is Corrected.BEFORE_START:
        return False
    if run.clients.connector.state(run.pipeline.connector.name).state != "STOPPED":
        return False
    stored = stored_value(run)
    if stored == dict(recovery.written):
        return False
    log.warning("the offset was changed after this recovery had written it (it is %s): it is written again", stored)
    return True


def from_the_start_again(run: Run, recovery: OpenRecovery) -> None:
    """Take the mode back in which its history was rebuilt, and start at W once more."""
    name = run.pipeline.connector.name
    _stop_at_w(run, recovery)
    restore(run, run.clients.connector.rebuilding(name).keys())
    run.clients.connector.resume(name)
    run.clients.connector.wait_running(name, timeout=RUNNING_SECONDS)


def restore_settings(run: Run) -> dict[str, str | None]:
    """Restore all settings, by a restart that sends the current transaction again from its beginning."""
    name, connector = run.pipeline.connector.name, run.clients.connector
    if not current(run).settings_before:
        return {}
    connector.stop(name, timeout=STOP_SECONDS)
    restored = restore(run)
    whole_transaction(run)
    connector.resume(name)
    connector.wait_running(name, timeout=RUNNING_SECONDS)
    return restored


def _streaming(run: Run, watermark: Watermark) -> RawOffset:
    """Wait as long as the connector makes progress; its answers are stored in the recovery, for `verify`."""

    def note(text: str) -> None:
        change(run, lambda now: now.resumes(text))

    return wait_past(run, watermark, note=note).raw


def history(run: Run) -> TableDefinitions:
    """The current table definitions of the connector's schema history; none if its topic is gone."""
    return config_rules_of(run.pipeline).definitions(settings(run), run.clients.transport)


def _doubted_since(run: Run) -> int:
    """The newest snapshot in the history before this recovery began to rebuild it; the first answer is kept."""
    if (since := current(run).history.since) is not None:
        return since
    newest = history(run).newest_ms
    return change(run, lambda now: now.rebuilding_since(newest)).history.since or 0


def history_rebuilt(run: Run, since: int, tables: Sequence[str], task: str = "resume_connector") -> None:
    """Wait until the schema history has been rewritten after `since` and agrees with the source for every table.

    The source is asked each time, because DDL waits for the hold and arrives once it lets go for Debezium's read lock. Raises
    SchemaError for a table that changed after W: the rebuilt history would decode the events before the change with it (INV 11).
    """

    def probe() -> bool | None:
        not_failed(run, task)
        definitions = defined(run, tables)
        _as_at_w(run, definitions)
        known = history(run)
        stale = known.differences(definitions)
        if not stale and known.newest_ms > since:
            return True
        raise NotYet(f"{known.size} records; stale: {', '.join(stale) or 'no newer definitions yet'}")

    standstill = run.pipeline.policy.standstill
    poll_while_moving(probe, standstill=standstill, interval=1.0, what="the connector to rebuild its schema history")


def _has_read_changes(run: Run, recovery: OpenRecovery) -> None:
    """Check the connector's definitions once it is past W: the changes before W were left for it to read (INV 12).

    Raises SchemaError for one that is neither the source's nor about to be: the next try rebuilds them.
    """
    if not settings(run).reports_ddl:
        return
    at_w = {
        name: table
        for name, table in defined(run, recovery.tables).items()
        if recovery.definitions.get(name) == table.fingerprint  # another came after W, and is read in its turn
    }
    if wrong := history(run).differences(at_w):
        change(run, _doubted)
        raise SchemaError(
            f"the connector is past the watermark, and its definition of {', '.join(sorted(wrong))} is not the source's",
            where=run.where,
            todo=new_watermark(run),
        )


def _doubted(recovery: OpenRecovery) -> OpenRecovery:
    """The next try takes a new W, and rebuilds the connector's definitions."""
    return replace(recovery.outdated(), history=replace(recovery.history, doubted=True))


def _as_at_w(run: Run, definitions: Mapping[str, Table]) -> None:
    """Raise SchemaError if a table's definition is not the one at W. A detour has no W."""
    at_w = current(run).definitions
    changed = [name for name, table in definitions.items() if at_w.get(name, table.fingerprint) != table.fingerprint]
    if changed:
        raise SchemaError(
            f"the definition of {', '.join(sorted(changed))} changed while the connector's schema history was rebuilt, so"
            " events from before the change can't be decoded with it",
            where=run.where,
            todo=new_watermark(run),
        )
