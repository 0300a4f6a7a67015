"""Places in a MySQL server's log, from its answers: which are refused because two servers answered, and what a replica has read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from airflow_cdc.core.errors import MissingPrivilegeError, PositionError, SourceError
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.errors import SourceSettingError, WrongServerError
from airflow_cdc.sources.mysql import replica, server_log
from airflow_cdc.sources.mysql.client import MySqlEndpoint
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, MySqlPosition, mysql_position
from airflow_cdc.sources.mysql.session import Session
from tests.unit.sources.answering import AnsweringSession, Rows, in_turn

UUID = "11111111-1111-1111-1111-111111111111"
ENDPOINT = MySqlEndpoint("db", 3306, "cdc", "pw")


class Log:
    """A server whose log moves with each look: `status` and `executed` are answered in turn, the last one again and again."""

    def __init__(self, *, status: Sequence[tuple[str, int, str | None]] = (), executed: Sequence[str] = ("",)) -> None:
        self.status, self.executed = list(status), list(executed)
        self.owned, self.purged = "", ""
        self.files: list[tuple[str, int]] = []
        self.events: dict[str, Rows] = {}

    def __call__(self, sql: str, args: Sequence[Any]) -> Rows:
        if sql in {"SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"}:
            file, pos, gtids = in_turn(self.status)
            return [{"File": file, "Position": pos, **({} if gtids is None else {"Executed_Gtid_Set": gtids})}]
        if sql.startswith("SHOW BINLOG EVENTS"):
            return self.events[sql.split("'")[1]]
        if "gtid_executed" in sql:
            return [{"executed": in_turn(self.executed), "purged": self.purged}]
        answers: dict[str, Rows] = {
            "gtid_owned": [{"gtids": self.owned}],
            "SHOW BINARY LOGS": [{"Log_name": name, "File_size": size} for name, size in self.files],
            "server_id": [{"uuid": UUID.upper(), "id": 7, "now": "2026-11-29T10:00:00.000000"}],
            "Uptime": [{"Variable_name": "Uptime", "Value": "60"}],
            "FLUSH LOCAL BINARY LOGS": [],
        }
        return next(rows for words, rows in answers.items() if words in sql)


def session(log: Log, version: str = "8.0.36") -> Session:
    return cast("Session", AnsweringSession(version, log))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("bin.000007", 900, None), ("bin.000007", 950, None)),  # not rotated: another server answered the second look
        (("bin.000007", 900, None), ("bin.000006", 4, None)),
        (("bin.000007", 900, None), ("log.000009", 4, None)),  # another series of files
        (("bin.000007", 900, None), ("log.000002", 4, None)),
    ],
)
def test_inv_07_a_rotation_that_another_server_answers_is_refused(
    before: tuple[str, int, None], after: tuple[str, int, None]
) -> None:
    with pytest.raises(WrongServerError, match=r"two servers answer here .*not through a proxy"):
        server_log.rotated_point(session(Log(status=[before, after])))


def test_inv_07_after_a_rotation_the_place_is_the_start_of_the_new_file() -> None:
    log = Log(status=[("bin.000007", 900, None), ("bin.000008", 157, None)])
    assert server_log.rotated_point(session(log)) == server_log.Status(BinlogPosition("bin.000008", 4), None)


@pytest.mark.parametrize(
    ("executed", "seen", "fits"),
    [
        ((f"{UUID}:1-5", f"{UUID}:1-7"), f"{UUID}:1-6", True),
        ((f"{UUID}:1-5", f"{UUID}:1-5"), f"{UUID}:1-5", True),
        ((f"{UUID}:1-5", f"{UUID}:1-7"), f"{UUID}:1-4", False),  # the status is of a server that is behind
        ((f"{UUID}:1-5", f"{UUID}:1-7"), f"{UUID}:1-8", False),  # and here of one that is ahead
        ((f"{UUID}:1-5", f"{UUID}:1-7"), None, False),
    ],
)
def test_inv_07_a_set_is_a_watermark_only_between_two_looks_at_the_same_server(
    executed: tuple[str, str], seen: str | None, fits: bool
) -> None:
    log = Log(status=[("bin.000007", 900, seen)], executed=executed)
    if fits:
        assert server_log.gtid_point(session(log)).gtids == GtidSet.parse(str(seen))
    else:
        with pytest.raises(WrongServerError, match="shrank"):
            server_log.gtid_point(session(log))


def test_transactions_under_way_are_counted_without_their_threads() -> None:
    log = Log()
    log.owned = f"{UUID}:23#4:24#7"
    assert server_log.owned_gtids(session(log)) == GtidSet.parse(f"{UUID}:23-24")


@pytest.mark.parametrize(("statement", "under_way"), [("xa  prepare 'w3'", True), ("XA PREPARE", True), ("XA COMMIT 'w3'", False), ("PREPARE s FROM 'x'", False), (None, False)])  # fmt: skip
def test_inv_08_an_xa_prepare_under_way_is_waited_for(statement: str | None, under_way: bool) -> None:
    def answer(sql: str, args: Sequence[Any]) -> Rows:
        if "Com_xa_prepare" in sql:
            return [{"Variable_name": "Com_xa_prepare", "Value": "1"}]
        if sql == "SHOW PROCESSLIST":
            return [{"Id": 12, "Info": statement}, {"Id": 13, "Info": "SELECT 1"}]
        return [] if sql.startswith("XA RECOVER") else [{"one": 1}]

    asked = cast("Session", AnsweringSession("8.0.36", answer))
    if not under_way:
        server_log.wait_for_xa(asked, timeout=0.2)
        return
    with pytest.raises(SourceSettingError, match="connection 12 in XA PREPARE"):
        server_log.wait_for_xa(asked, timeout=0.2)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Log:
    """The replica's server: three files."""
    log = Log(status=[("bin.000009", 157, f"{UUID}:1-90")])
    log.files = [("bin.000007", 900), ("bin.000008", 900), ("bin.000009", 157)]
    for number, before in ((7, f"{UUID}:1-10"), (8, f"{UUID}:1-40"), (9, f"{UUID}:1-80")):
        previous = {"Event_type": "Previous_gtids", "Info": before}
        log.events[f"bin.00000{number}"] = [{"Event_type": "Format_desc", "Info": "Server ver: 8"}, previous]

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[Session]:
        yield session(log)

    monkeypatch.setattr(replica, "open_session", opened)
    return log


def mark(gtids: str | None) -> Watermark:
    position = MySqlPosition("bin.000009", 157, None if gtids is None else GtidSet.parse(gtids))
    return Watermark(position, UUID, datetime(2026, 11, 29, tzinfo=UTC))


def test_inv_26_the_start_of_the_next_file_has_the_transactions_before_it(server: Log) -> None:
    begun = replica.start_of_file_after(ENDPOINT, "bin.000007", mark(f"{UUID}:1-90"))
    assert str(begun.position) == str(MySqlPosition("bin.000008", 4, GtidSet.parse(f"{UUID}:1-40")))


def test_inv_26_without_gtids_the_start_of_the_next_file_is_only_its_place(server: Log) -> None:
    position = mysql_position(replica.start_of_file_after(ENDPOINT, "bin.000007", mark(None)).position)
    assert (position.file, position.pos, position.gtids) == ("bin.000008", 4, None)


@pytest.mark.parametrize(("file", "what"), [("bin.000009", "no binlog file follows bin.000009"), ("log.000001", "no binlog file follows log.000001")])  # fmt: skip
def test_a_file_that_nothing_follows_asks_for_another_strategy(server: Log, file: str, what: str) -> None:
    with pytest.raises(SourceError, match=f"{what} .*diff_repair"):
        replica.start_of_file_after(ENDPOINT, file, mark(f"{UUID}:1-90"))


def test_a_file_whose_head_tells_nothing_asks_for_another_strategy(server: Log) -> None:
    server.events["bin.000008"] = [{"Event_type": "Format_desc", "Info": "Server ver: 8"}]
    with pytest.raises(SourceError, match=r"which transactions stand before bin.000008 cannot be read .*diff_repair"):
        replica.start_of_file_after(ENDPOINT, "bin.000007", mark(f"{UUID}:1-90"))


def test_inv_09_the_start_of_a_file_is_read_from_the_watermarks_server_alone(server: Log) -> None:
    other = Watermark(mark(None).position, UUID.replace("1", "2"), mark(None).taken_at)
    with pytest.raises(WrongServerError):
        replica.start_of_file_after(ENDPOINT, "bin.000007", other)


@pytest.mark.parametrize(("read", "file"), [(50, "bin.000008"), (40, "bin.000008"), (39, "bin.000007"), (80, "bin.000009"), (5, "bin.000007")])  # fmt: skip
def test_a_connector_continues_in_the_newest_file_before_which_it_has_read_all(
    server: Log, read: int, file: str
) -> None:
    """With nothing that fits, the oldest file: the set decides, and the file is for people and forecasts."""
    started = replica.MySqlReplication(ENDPOINT).after(GtidSet.parse(f"{UUID}:1-{read}"))
    assert (started.file, started.pos, str(started.gtids)) == (file, 4, f"{UUID}:1-{read}")


def test_a_connector_that_may_not_look_into_files_starts_at_the_oldest(server: Log) -> None:
    def refused(sql: str, args: Sequence[Any]) -> Rows:
        if sql.startswith("SHOW BINLOG EVENTS"):
            raise MissingPrivilegeError("may not look", where="db", todo="GRANT REPLICATION SLAVE")
        return Log.__call__(server, sql, args)

    server.events.clear()
    opened = AnsweringSession("8.0.36", refused)
    assert replica._logged_before(cast("Session", opened), "bin.000008") is None
    assert replica.MySqlReplication(ENDPOINT).from_the_oldest(GtidSet.parse(f"{UUID}:1-5")).file == "bin.000007"


HERE, PAST, AHEAD = (MySqlPosition(f, p, GtidSet.parse(f"{UUID}:{g}")) for f, p, g in (("bin.000009", 157, "1-50"), ("bin.000009", 100, "1-60"), ("bin.000009", 158, "1-60")))  # fmt: skip


@pytest.mark.parametrize(
    ("position", "end", "read"),
    [
        (None, PAST, None),
        (MySqlPosition("bin.000009", 157), PAST, None),  # an offset without a set
        (HERE, None, "1-50"),
        (HERE, MySqlPosition("bin.000009", 100), "1-50"),  # an end without a set says nothing more
        (HERE, PAST, "1-60"),  # at or past the end of the log, all before that end was read
        (HERE, MySqlPosition("bin.000009", 157, GtidSet.parse(f"{UUID}:1-70")), "1-70"),
        (HERE, AHEAD, "1-50"),
        (HERE, MySqlPosition("log.000001", 4, GtidSet.parse(f"{UUID}:1-60")), "1-50"),  # files that have no order
    ],
)
def test_a_connector_at_the_logs_end_has_read_what_its_set_does_not_name_yet(
    position: MySqlPosition | None, end: MySqlPosition | None, read: str | None
) -> None:
    found = replica.MySqlReplication(ENDPOINT).read_by(position, end)
    assert (None if found is None else str(found)) == (None if read is None else f"{UUID}:{read}")


def test_transactions_of_another_kind_of_source_are_refused() -> None:
    with pytest.raises(PositionError, match="another kind of source than MySQL"):
        replica.gtid_set(cast("GtidSet", "0-1-7"))


def test_what_is_on_a_server_includes_what_is_being_committed_if_asked(server: Log) -> None:
    server.executed, server.owned, server.purged = [f"{UUID}:1-5"], f"{UUID}:6#12", f"{UUID}:1-2"
    asked = replica.MySqlReplication(ENDPOINT)
    assert str(asked.executed()) == f"{UUID}:1-6"
    assert str(asked.executed(under_way=False)) == f"{UUID}:1-5"
    assert str(asked.purged()) == f"{UUID}:1-2"


def test_the_logs_end_is_a_place_with_all_that_stands_before_it(server: Log) -> None:
    assert str(replica.MySqlReplication(ENDPOINT).log_end()) == str(
        MySqlPosition("bin.000009", 157, GtidSet.parse(f"{UUID}:1-90"))
    )
    server.status = [("bin.000009", 157, None)]
    end = replica.MySqlReplication(ENDPOINT).log_end()
    assert (end.pos, end.gtids) == (157, GtidSet())


def test_a_server_without_a_file_says_how_to_get_one(server: Log) -> None:
    server.files = []
    with pytest.raises(SourceError, match=r"the server has no binlog file .*--log-bin"):
        replica.MySqlReplication(ENDPOINT).from_the_oldest(GtidSet())


@pytest.mark.parametrize(
    ("version", "statement"),
    [("5.7.44", "SHOW MASTER STATUS"), ("8.0.36", "SHOW MASTER STATUS"), ("8.4.0", "SHOW BINARY LOG STATUS"), ("10.11.18-MariaDB", "SHOW MASTER STATUS")],
)  # fmt: skip
def test_the_logs_end_is_asked_by_the_name_that_the_server_knows(version: str, statement: str) -> None:
    """MySQL 8.4 took SHOW MASTER STATUS away; MariaDB has never had the other."""
    assert server_log.log_status_statement(session(Log(), version)) == statement


def test_settings_are_read_by_small_names_and_compared_by_capitals() -> None:
    answered: Rows = [{"Variable_name": "GTID_MODE", "Value": "on"}, {"Variable_name": "log_bin", "Value": b"ON"}]
    asked = cast("Session", AnsweringSession("8.0.36", lambda *_: answered))
    assert server_log.read_settings(asked) == {"gtid_mode": "ON", "log_bin": "ON"}


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ((1, 2, 0, "0x7733"), "'w3'"),
        ((1, 2, 1, "0x773362"), "'w3','b'"),
        ((5, 2, 1, "0x773362"), "'w3','b',5"),
        ((5, 2, 0, "0x7733"), "'w3','',5"),
        ((1, 3, 0, "0x772733"), "X'772733'"),  # a quotation mark
        ((1, 2, 0, "0x7700"), "X'7700'"),  # what can't be printed
        ((1, 2, 0, "0xc3a9"), "X'c3a9'"),
        ((1, 2, 0, "'w3','b',5"), "'w3','b',5"),  # MariaDB's own SQL
    ],
)
def test_inv_08_a_prepared_transaction_is_named_as_the_statement_that_ends_it_takes_it(
    row: tuple[int, int, int, str], name: str
) -> None:
    names = ("formatID", "gtrid_length", "bqual_length", "data")
    asked = AnsweringSession("8.0.36", lambda *_: [dict(zip(names, row, strict=True))])
    assert [xa.name for xa in server_log.prepared_xa(cast("Session", asked))] == [name]
    assert asked.asked == ["XA RECOVER CONVERT XID"]


@pytest.mark.parametrize(("left", "seconds"), [(0.01, 1), (1.0, 1), (1.2, 2), (600.0, 15)])
def test_inv_07_one_wait_for_transactions_is_bounded_and_never_for_ever(left: float, seconds: int) -> None:
    """The server's function takes whole seconds, and 0 would mean without an end."""
    asked: list[Any] = []

    def answer(sql: str, args: Sequence[Any]) -> Rows:
        asked.append(tuple(args))
        return [{"late": len(asked) == 1}]

    gtids = GtidSet.parse(f"{UUID}:1-5")
    opened = cast("Session", AnsweringSession("8.0.36", answer))
    assert [server_log.wait_slice(opened, gtids, left) for _ in range(2)] == [False, True]
    assert asked[0] == (f"{UUID}:1-5", seconds)


class Replica(Log):
    """A replica: `channels` by which it replicates, and `settings` of its own."""

    def __init__(self) -> None:
        super().__init__(status=[("bin.000009", 157, f"{UUID}:1-90")], executed=[f"{UUID}:1-90"])
        self.purged = f"{UUID}:1-3"
        self.channels: Rows = []
        self.settings = {"gtid_mode": "ON", "log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL"}
        self.asked: list[str] = []

    def __call__(self, sql: str, args: Sequence[Any]) -> Rows:
        self.asked.append(sql)
        if sql in {"SHOW REPLICA STATUS", "SHOW SLAVE STATUS", "SHOW ALL SLAVES STATUS"}:
            return self.channels
        if sql.startswith("SHOW GLOBAL VARIABLES"):
            wanted = {name for name in self.settings if name in args or f"'{name}'" in sql}
            return [{"Variable_name": name, "Value": self.settings[name]} for name in sorted(wanted)]
        return super().__call__(sql, args)


@pytest.fixture
def replicating(monkeypatch: pytest.MonkeyPatch) -> Replica:
    made = Replica()

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[Session]:
        yield session(made)

    monkeypatch.setattr(replica, "open_session", opened)
    return made


def test_facts_of_a_replica_are_its_own(replicating: Replica) -> None:
    replicating.settings["log_slave_updates"] = "ON"
    replicating.channels = [{"Source_UUID": "a1", "Replicate_Do_DB": ""}, {"Master_UUID": "b2"}, {"Source_Host": "old"}]
    found = replica.read_replica(ENDPOINT, "replica_1")
    assert (found.conn_id, found.server_uuid, found.address) == ("replica_1", UUID, "db:3306")
    assert (found.gtid_mode, found.log_bin, found.binlog_format, found.row_image) == ("ON", True, "ROW", "FULL")
    assert (str(found.gtid_executed), str(found.gtid_purged)) == (f"{UUID}:1-90", f"{UUID}:1-3")
    assert (found.sources, found.log_updates, found.filters) == (("a1", "b2", ""), True, ())


@pytest.mark.parametrize(
    ("settings", "log_bin", "log_updates"),
    [({"log_bin": "OFF"}, False, False), ({"log_replica_updates": "ON"}, True, True), ({"log_slave_updates": "OFF"}, True, False)],
)  # fmt: skip
def test_a_replica_that_logs_nothing_of_its_source_is_seen(
    replicating: Replica, settings: dict[str, str], log_bin: bool, log_updates: bool
) -> None:
    replicating.settings |= settings
    found = replica.read_replica(ENDPOINT, "replica_1")
    assert (found.log_bin, found.log_updates) == (log_bin, log_updates)


@pytest.mark.parametrize(
    ("name", "value", "left_out"),
    [
        ("Replicate_Do_DB", "shop", True), ("Replicate_Ignore_DB", "tmp", True), ("Replicate_Do_Table", "shop.t", True),
        ("Replicate_Ignore_Table", "shop.t", True), ("Replicate_Wild_Do_Table", "shop.%", True),
        ("Replicate_Wild_Ignore_Table", "tmp.%", True), ("Replicate_Rewrite_DB", "(a,b)", True),
        ("Replicate_Do_DB", "", False), ("Replicate_Ignore_Server_Ids", "3", False), ("Source_Host", "db", False),
    ],
)  # fmt: skip
def test_inv_31_what_a_replica_leaves_out_is_told_by_its_name(
    replicating: Replica, name: str, value: str, left_out: bool
) -> None:
    replicating.channels = [{name: value}]
    assert replica.read_replica(ENDPOINT, "r").filters == ((f"{name.lower()} {value}",) if left_out else ())


@pytest.mark.parametrize(("name", "value", "left_out"), [("slave_skip_errors", "1062", True), ("replica_skip_errors", "all", True), ("slave_skip_errors", "OFF", False), ("slave_skip_errors", "off", False), ("replica_skip_errors", "", False)])  # fmt: skip
def test_inv_31_a_replica_that_passes_over_errors_may_lack_rows(
    replicating: Replica, name: str, value: str, left_out: bool
) -> None:
    replicating.settings[name] = value
    assert replica.read_replica(ENDPOINT, "r").filters == ((f"{name} {value}",) if left_out else ())


@pytest.mark.parametrize(
    ("version", "statement"),
    [("8.0.36", "SHOW REPLICA STATUS"), ("8.0.15", "SHOW SLAVE STATUS"), ("5.7.44", "SHOW SLAVE STATUS"), ("10.11.18-MariaDB", "SHOW ALL SLAVES STATUS")],
)  # fmt: skip
def test_what_a_server_replicates_is_asked_by_the_name_that_it_knows(version: str, statement: str) -> None:
    made = Replica()
    made.channels = [{"Channel_Name": "c"}]
    assert replica.replication_status(session(made, version)) == [{"channel_name": "c"}]
    assert made.asked == [statement]


def test_a_replica_of_another_kind_of_source_is_refused(replicating: Replica) -> None:
    with pytest.raises(SourceError, match=r"pg:5432 is no MySQL server .*same kind as the source"):
        replica.MySqlReplication(ENDPOINT).faults("r", cast("Any", Postgres()), GtidSet())


class Postgres:
    address = "pg:5432"
