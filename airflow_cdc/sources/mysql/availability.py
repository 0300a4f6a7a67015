"""Whether a server can still send everything after a position: one answer, shared by sensors, steps and diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from airflow_cdc.core.position import Availability, Available
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, MySqlPosition


class File(Protocol):
    """A binlog file of the server's list."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...


class Log(Protocol):
    """The facts needed about any server with a binary log; BinlogFacts has them."""

    @property
    def log_bin(self) -> bool: ...
    @property
    def binlog_files(self) -> Sequence[File]: ...
    @property
    def current(self) -> BinlogPosition: ...


class GtidLog(Log, Protocol):
    """The facts needed about a MySQL server; MySqlFacts has them."""

    @property
    def gtid_mode(self) -> str | None: ...
    @property
    def gtid_executed(self) -> GtidSet | None: ...
    @property
    def gtid_owned(self) -> GtidSet | None: ...
    @property
    def gtid_purged(self) -> GtidSet | None: ...


def availability(log: GtidLog, position: MySqlPosition) -> Available:
    """By GTID if the position has a set, ignoring file and position; else by file and position."""
    if not log.log_bin:
        return Available(Availability.LOST, "the binary log is off on this server")
    if position.gtids is not None:
        return gtids_available(log, position.gtids)
    return file_available(log, position.place)


def gtids_available(log: GtidLog, stored: GtidSet) -> Available:
    """LOST: transactions that `stored` lacks were purged. NOT_YET: the server has not executed all of `stored`.

    Transactions under way count as executed: a connector may have seen them already.
    """
    if log.gtid_executed is None or log.gtid_purged is None:
        return Available(Availability.UNKNOWN, f"the source has no GTIDs (gtid_mode is {log.gtid_mode})")
    missing = log.gtid_purged - stored
    if not missing.is_empty:
        return Available(Availability.LOST, f"purged before they were read: {missing}")
    ahead = stored - (log.gtid_executed | (log.gtid_owned or GtidSet()))
    if not ahead.is_empty:
        return Available(Availability.NOT_YET, f"not executed on this server: {ahead}")
    return Available(Availability.AVAILABLE, "every transaction after the stored set is still in the log")


def file_available(log: Log, wanted: BinlogPosition) -> Available:
    """AVAILABLE: the file is there and long enough. LOST: purged, cut, or of another series. NOT_YET: not written yet."""
    size = file_end(log, wanted.file)
    if size is None:
        return _absent(log, wanted)
    if wanted.pos <= size:
        return Available(Availability.AVAILABLE, f"{wanted.file} is there, {size} bytes")
    if log.current.file == wanted.file:
        return Available(Availability.NOT_YET, f"{wanted.file} has {size} bytes so far, {wanted} is beyond")
    return Available(
        Availability.LOST,
        f"{wanted.file} ended at {size}, before position {wanted.pos}: the log was truncated or replaced",
    )


def file_end(log: Log, file: str) -> int | None:
    """The size of `file` in bytes; None if it is gone. The newest one may have grown after the files were listed."""
    listed = next((entry.size for entry in log.binlog_files if entry.name == file), None)
    return listed if listed is None or log.current.file != file else max(listed, log.current.pos)


def _absent(log: Log, wanted: BinlogPosition) -> Available:
    if not log.current.comparable(wanted):
        return Available(
            Availability.LOST, f"the source now names its files like {log.current.file}: another server or log"
        )
    if log.current < wanted:
        return Available(Availability.NOT_YET, f"the source is at {log.current}")
    oldest = log.binlog_files[0].name if log.binlog_files else "none"
    return Available(Availability.LOST, f"{wanted.file} was purged; the oldest file is {oldest}")


class BinlogWords:
    """What a person can do at a server with a binary log (core.ports.SourceDatabase)."""

    keep_longer: ClassVar[str] = (
        "Raise the retention of the binary log (binlog_expire_logs_seconds, or your provider's own setting)."
    )
    ids_todo: ClassVar[str] = "Or grant PROCESS, if it is an InnoDB table."
