"""Places in a MariaDB server's log, from its answers: what was purged meanwhile, what lies in a hole, and whether a last DDL was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.errors import SourceSettingError
from airflow_cdc.sources.mariadb import client, facts, log
from airflow_cdc.sources.mariadb.gtid import MariaDbGtid
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.sources.mysql.client import MySqlEndpoint
from airflow_cdc.sources.mysql.facts import BinlogFile
from airflow_cdc.sources.mysql.server_log import ServerIdentity
from airflow_cdc.sources.mysql.session import Session
from tests.unit.sources.answering import AnsweringSession, Rows, in_turn

NOW = datetime(2026, 11, 29, tzinfo=UTC)


class Server:
    """`places`: what stands before a place (file, position) of the log; None: no such place. `views`: of read views, in turn."""

    def __init__(self, places: Mapping[tuple[str, int], str | None], events: Sequence[dict[str, Any]] = ()) -> None:
        self.places, self.events = places, list(events)
        self.prepares, self.views = [0], [("bin.000007", 900, 0)]
        self.compressed, self.state = "OFF", "0-1-9"

    def __call__(self, sql: str, args: Sequence[Any]) -> Rows:
        if "BINLOG_GTID_POS" in sql:
            place = self.places.get((args[0], args[1]))
            return [{"gtids": place, "place": place}]
        if "snapshot_file" in sql:
            return [dict(zip(("snapshot_file", "snapshot_pos", "prepares"), in_turn(self.views), strict=True))]
        if "AS n" in sql:
            return [{"n": in_turn(self.prepares)}]
        if not sql.startswith(("SHOW GLOBAL", "SELECT")):
            return self.events if sql.startswith("SHOW BINLOG EVENTS") else []
        values = {"Com_xa_prepare": "0", "log_bin_compress": self.compressed}
        rows = [{"Variable_name": name, "Value": value} for name, value in values.items() if f"'{name}'" in sql]
        return rows or [{"state": self.state}]


def session(server: Server) -> AnsweringSession:
    return AnsweringSession("10.11.18-MariaDB", server)


def at(server: Server) -> Session:
    return cast("Session", session(server))


def test_a_place_has_the_transactions_before_it() -> None:
    found = log.position_at(at(Server({("bin.000007", 900): "0-1-9,2-1-3"})), "bin.000007", 900)
    assert found == MariaDbPosition("bin.000007", 900, Domains.parse("0-1-9,2-1-3"))


def test_a_file_that_is_purged_while_its_place_is_read_says_so() -> None:
    with pytest.raises(SourceError, match=r"bin.000007 was purged while .*binlog_expire_logs_seconds"):
        log.position_at(at(Server({})), "bin.000007", 900)


def test_a_place_without_a_transaction_before_it_is_no_start() -> None:
    with pytest.raises(SourceSettingError, match=r"no transaction stands before bin.000007:900.*log one transaction"):
        log.position_at(at(Server({("bin.000007", 900): ""})), "bin.000007", 900)


def test_inv_19_a_view_is_taken_again_until_no_xa_prepare_ran_beside_it() -> None:
    server = Server({})
    server.prepares, server.views = [3, 4], [("bin.000007", 900, 4), ("bin.000007", 950, 4)]
    opened = session(server)
    assert log.open_view(cast("Session", opened)) == log.Place("bin.000007", 950, 4)
    assert opened.asked.count("COMMIT") == 1  # the first view is closed


def test_inv_19_a_server_that_always_prepares_has_no_exact_view() -> None:
    server = Server({})
    server.views = [("bin.000007", 900, 1)]
    with pytest.raises(SourceSettingError, match="no read view has an exact position"):
        log.open_view(at(server))


def test_a_server_without_a_log_says_how_to_get_one() -> None:
    server = Server({})
    server.views = [("", 0, 0)]
    with pytest.raises(SourceSettingError, match=r"the binary log is off .*--log-bin"):
        log.open_view(at(server))


def test_inv_06_what_is_visible_now_is_a_views_place_and_the_view_is_closed() -> None:
    opened = session(Server({("bin.000007", 900): "0-1-9"}))
    assert log.visible(cast("Session", opened)) == MariaDbPosition("bin.000007", 900, Domains.parse("0-1-9"))
    assert opened.asked.index(log.OPEN_VIEW) < opened.asked.index("COMMIT")


def test_inv_08_a_prepared_transaction_is_waited_for_before_a_view_is_opened() -> None:
    server = Server({}, [{"formatID": 1, "gtrid_length": 2, "bqual_length": 0, "data": "'w3'"}])
    opened = session(server)
    opened.answer = lambda sql, args: server.events if sql.startswith("XA RECOVER") else server(sql, args)
    with pytest.raises(SourceSettingError, match=r"prepared XA transactions stay open.*'w3'"):
        log.open_view(cast("Session", opened), timeout=0.2)
    assert log.OPEN_VIEW not in opened.asked


DDL = [{"Event_type": "Gtid", "Info": "GTID 0-1-7"}, {"Event_type": "Query", "Info": "use shop; ALTER TABLE t …"}]
HERE = MariaDbPosition("bin.000007", 900, Domains.parse("0-1-6"), read=2)
LAST = MariaDbGtid.parse("0-1-7")


@pytest.mark.parametrize(
    ("before", "here", "events", "read"),
    [
        (None, HERE, DDL, False),  # no such file: the place is another server's
        ("0-1-7", HERE, [], True),  # it stands behind it, as after a rotation
        ("0-1-6", HERE, DDL, True),
        ("0-1-6", replace(HERE, read=1), DDL, False),  # one of two events
        ("0-1-6", HERE, [{"Event_type": "Gtid", "Info": "BEGIN GTID 0-1-7"}, DDL[1]], False),  # a transaction of rows
        ("0-1-6", HERE, [{"Event_type": "Gtid", "Info": "GTID 0-1-8"}, DDL[1]], False),  # another transaction
        ("0-1-6", HERE, [DDL[0], {"Event_type": "Table_map", "Info": "table_id: 7"}], False),
        ("0-1-6", HERE, DDL[:1], False),
    ],
)
def test_inv_06_a_last_ddl_is_read_if_the_offset_stands_behind_it_or_counts_its_events(
    before: str | None, here: MariaDbPosition, events: Rows, read: bool
) -> None:
    places = {("bin.000007", 900): before}
    assert log.has_read(at(Server(places, events)), here, LAST) is read


FILES = [BinlogFile("bin.000001", 500), BinlogFile("bin.000002", 600), BinlogFile("bin.000003", 700)]


@pytest.mark.parametrize(
    ("places", "stored", "missing"),
    [
        # each file begins where the one before it ends
        ({("bin.000001", 4): "0-1-3", ("bin.000002", 4): "0-1-6", ("bin.000003", 4): "0-1-9", ("bin.000001", 500): "0-1-6", ("bin.000002", 600): "0-1-9"}, "0-1-4", ""),
        # the second file lost its end
        ({("bin.000001", 4): "0-1-3", ("bin.000002", 4): "0-1-6", ("bin.000003", 4): "0-1-9", ("bin.000002", 600): "0-1-7"}, "0-1-6", "0-1-8..9"),
        # what was read already is in no hole
        ({("bin.000001", 4): "0-1-3", ("bin.000002", 4): "0-1-6", ("bin.000003", 4): "0-1-9", ("bin.000002", 600): "0-1-7"}, "0-1-8", "0-1-9"),
        # before the first file, or in the newest: there is no next one to compare with
        ({("bin.000001", 4): "0-1-3", ("bin.000002", 4): "0-1-6", ("bin.000003", 4): "0-1-9"}, "0-1-2", ""),
        ({("bin.000001", 4): "0-1-3", ("bin.000002", 4): "0-1-6", ("bin.000003", 4): "0-1-9"}, "0-1-9", ""),
        # a place that cannot be read says nothing
        ({("bin.000001", 4): "0-1-3", ("bin.000002", 4): "0-1-6", ("bin.000003", 4): "0-1-9"}, "0-1-6", ""),
        ({("bin.000001", 4): "0-1-3", ("bin.000002", 4): "0-1-6", ("bin.000002", 600): "0-1-7"}, "0-1-6", ""),
    ],
)  # fmt: skip
def test_transactions_that_a_file_lost_at_its_end_are_a_hole(
    places: dict[tuple[str, int], str | None], stored: str, missing: str
) -> None:
    found = facts.hole(at(Server(places)), FILES, Domains.parse(stored))
    assert found.count == {"": 0, "0-1-8..9": 2, "0-1-9": 1}[missing]
    assert bool(found) is bool(missing)


@pytest.mark.parametrize(("value", "compressed"), [("ON", True), ("on", True), ("OFF", False)])
def test_inv_31_a_compressed_log_is_seen(value: str, compressed: bool) -> None:
    server = Server({})
    server.compressed = value
    assert facts.is_compressed(at(server)) is compressed


def test_what_was_purged_ends_where_the_oldest_file_begins() -> None:
    found = facts.domain_facts(at(Server({("bin.000001", 4): "0-1-3"})), FILES)
    assert (str(found.logged.position), str(found.purged)) == ("0-1-9", "0-1-3")


def test_a_file_that_is_purged_between_two_looks_leaves_the_facts_unknown() -> None:
    with pytest.raises(SourceError, match=r"bin.000001 was listed, and is gone or unreadable now.*Look again"):
        facts.domain_facts(at(Server({})), FILES)


class Source(client.MariaDbSource):
    """A source whose session is answered by the test's server; `uuid` is what the server calls itself."""

    uuid = "run-1"

    def __init__(self, server: Server) -> None:
        super().__init__(MySqlEndpoint("db", 3306, "cdc", "pw"))
        self.answers = server
        self.opened = 0

    @contextmanager
    def session(self, *, read_timeout: float | None = None) -> Iterator[Session]:
        self.opened += 1
        yield at(self.answers)

    def _identity(self, session: Session) -> ServerIdentity:
        return ServerIdentity(self.uuid, 1, 60, NOW)


def mark(domains: str | None, server_id: int | None = 1) -> Watermark:
    parsed = None if domains is None else Domains.parse(domains)
    return Watermark(MariaDbPosition("bin.000007", 990, parsed, server_id), "run-1", NOW)


@pytest.mark.parametrize(
    ("here", "wanted", "rests", "looks"),
    [
        (HERE, mark("0-1-7"), True, 1),
        (replace(HERE, read=0), mark("0-1-7"), False, 0),  # nothing read since
        (replace(HERE, domains=None), mark("0-1-7"), False, 0),
        (HERE, mark(None), False, 0),
        (replace(HERE, file="log.000007"), mark("0-1-7"), False, 0),  # files that have no order
        (HERE, mark("0-1-8"), False, 0),  # two transactions are missing
        (HERE, mark("0-1-7,2-1-1"), False, 0),  # and here one of each of two domains
        (HERE, mark("0-1-6"), False, 0),
        (replace(HERE, server_id=2), mark("0-1-7"), False, 0),  # the offset is another server's
        (replace(HERE, server_id=1), mark("0-1-7"), True, 1),
        (HERE, mark("0-1-7", None), True, 1),
    ],
)
def test_inv_06_a_connector_rests_behind_exactly_one_transaction_that_it_has_read(
    here: MariaDbPosition, wanted: Watermark, rests: bool, looks: int
) -> None:
    source = Source(Server({("bin.000007", 900): "0-1-6"}, DDL))
    assert source.at_rest(here, wanted) is rests
    assert source.opened == looks


def test_inv_09_a_place_at_another_run_of_the_server_is_no_rest() -> None:
    source = Source(Server({("bin.000007", 900): "0-1-6"}, DDL))
    source.uuid = "run-2"
    assert source.at_rest(HERE, mark("0-1-7")) is False
