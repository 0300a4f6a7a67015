"""Is a stored position still on the source? One question each for a file position and for a GTID set.

The two `*_answer` functions decide in values; sensors and triggers ask them in the same way and only sleep differently.
"""

from __future__ import annotations

from airflow_cdc.core.diagnosis.observation import Unknown
from airflow_cdc.hooks.mysql import CdcMySqlHook
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.facts import BinlogFacts, MySqlFacts
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition
from airflow_cdc.triggers.base import Answer, ProbeTrigger, State


def binlog_answer(facts: BinlogFacts | Unknown, wanted: BinlogPosition) -> Answer:
    """AVAILABLE: the file is there and long enough. LOST: it was purged. WAITING: the source has not written it yet."""
    if isinstance(facts, Unknown):
        return Answer(State.UNKNOWN, facts.reason)
    if not facts.log_bin:
        return Answer(State.LOST, "the binary log is off on this server")
    sizes = {entry.name: entry.size for entry in facts.binlog_files}
    if wanted.file in sizes:
        return _in_file(facts, wanted, sizes[wanted.file])
    return _absent(facts, wanted)


def _in_file(facts: BinlogFacts, wanted: BinlogPosition, size: int) -> Answer:
    if wanted.pos <= size:
        return Answer(State.AVAILABLE, f"{wanted.file} is there, {size} bytes")
    if facts.current.file == wanted.file:
        return Answer(State.WAITING, f"{wanted.file} has {size} bytes so far")
    return Answer(
        State.LOST, f"{wanted.file} ended at {size}, before position {wanted.pos}: the log was cut or replaced"
    )


def _absent(facts: BinlogFacts, wanted: BinlogPosition) -> Answer:
    if not facts.current.comparable(wanted):
        return Answer(State.LOST, f"the source now names its files like {facts.current.file}: another server or log")
    if facts.current < wanted:
        return Answer(State.WAITING, f"the source is at {facts.current.file}:{facts.current.pos}")
    oldest = facts.binlog_files[0].name if facts.binlog_files else "none"
    return Answer(State.LOST, f"{wanted.file} was purged; the oldest file is {oldest}")


def gtid_answer(facts: MySqlFacts | Unknown, stored: GtidSet) -> Answer:
    """AVAILABLE: nothing that `stored` lacks was purged, and the server has all of `stored`.

    LOST: gtid_purged holds transactions that `stored` lacks. WAITING: the server has not executed all of `stored`.
    """
    if isinstance(facts, Unknown):
        return Answer(State.UNKNOWN, facts.reason)
    if facts.gtid_executed is None or facts.gtid_purged is None:
        return Answer(State.UNKNOWN, f"the source has no GTIDs (gtid_mode is {facts.gtid_mode})")
    missing = facts.gtid_purged - stored
    if not missing.is_empty:
        return Answer(State.LOST, f"purged before they were read: {missing}")
    ahead = stored - facts.gtid_executed
    if not ahead.is_empty:
        return Answer(State.WAITING, f"not yet executed on this server: {ahead}")
    return Answer(State.AVAILABLE, "every transaction after the stored set is still in the log")


class BinlogTrigger(ProbeTrigger):
    """Waits until `file`:`position` can be read from the server of `conn_id`, or never can."""

    fields = ("conn_id", "file", "position")

    def __init__(self, *, conn_id: str, file: str, position: int, poke_interval: float, timeout: float) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout)
        self.conn_id = conn_id
        self.file = file
        self.position = position

    async def prepare(self) -> MySqlEndpoint:
        return await CdcMySqlHook(self.conn_id).aendpoint()

    def probe(self, prepared: MySqlEndpoint) -> Answer:
        return binlog_answer(MySqlSource(prepared).facts(), BinlogPosition(self.file, self.position))


class GtidSetTrigger(ProbeTrigger):
    """Waits until everything after `gtid_set` can be read from the server of `conn_id`, or never can."""

    fields = ("conn_id", "gtid_set")

    def __init__(self, *, conn_id: str, gtid_set: str, poke_interval: float, timeout: float) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout)
        self.conn_id = conn_id
        self.gtid_set = gtid_set

    async def prepare(self) -> MySqlEndpoint:
        return await CdcMySqlHook(self.conn_id).aendpoint()

    def probe(self, prepared: MySqlEndpoint) -> Answer:
        return gtid_answer(MySqlSource(prepared).facts(), GtidSet.parse(self.gtid_set))
