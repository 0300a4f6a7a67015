"""MariaDB's GTID algebra against the server's own parsing, MASTER_GTID_WAIT, BINLOG_GTID_POS and gtid_binlog_state."""

from __future__ import annotations

import random
from collections.abc import Callable

import pymysql
import pytest

import stack
from airflow_cdc.core.errors import PositionError
from airflow_cdc.sources.mariadb.gtid import MariaDbGtid, MariaDbPosition, MariaDbState
from stack.mysql import MySqlServer, MySqlSettings
from stack.versions import mariadb_series

pytestmark = pytest.mark.slow  # its server comes from Debian's packages, which not every machine can fetch

PAIRS = 120


@pytest.fixture(scope="module")
def server(servers: stack.Stack) -> MySqlServer:
    """A server of its own: these tests set its replication position, and reset its log."""
    settings = MySqlSettings(name="mariadb-gtid", server_id=104, series=mariadb_series())
    return servers.mysql.get(settings.name) or servers.add_mysql(settings)


def random_position(rng: random.Random) -> MariaDbPosition:
    domains = rng.sample((0, 1, 7, 4294967295), rng.randint(0, 4))
    return MariaDbPosition(tuple(MariaDbGtid(domain, rng.randint(1, 3), rng.randint(1, 9)) for domain in domains))


def as_text(position: MariaDbPosition, rng: random.Random) -> str:
    """Unsorted and spaced, as a person may have written it."""
    gtids = list(map(str, position.gtids))
    rng.shuffle(gtids)
    return rng.choice((",", ", ")).join(gtids)


def test_reading_printing_and_order_agree_with_the_server(server: MySqlServer) -> None:
    """MASTER_GTID_WAIT returns 0 when the server's place is at or behind the one that it is given, else -1 in time."""
    rng = random.Random(20261122)
    for _ in range(PAIRS):
        held, asked = random_position(rng), random_position(rng)
        wanted = as_text(asked, rng)
        ((printed, waited),) = server.execute(
            f"SET GLOBAL gtid_slave_pos = '{as_text(held, rng)}'",
            f"SELECT @@GLOBAL.gtid_slave_pos, MASTER_GTID_WAIT('{wanted}', 0.001)",
        )
        assert str(MariaDbPosition.parse(printed)) == printed == str(held)
        assert MariaDbPosition.parse(wanted).issubset(held) is (waited == 0), (wanted, printed)


@pytest.mark.parametrize(
    "text",
    [
        "0-1-1,",
        "0-1",
        "0-1-1-1",
        "-1-1-1",
        "a-b-c",
        "0-1-1;1-1-1",
        "0 -1-1",
        "0-1-1,0-2-5",
        "4294967296-1-1",
        "0-1-18446744073709551616",
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:1",
    ],
)
def test_what_the_server_refuses_is_refused(server: MySqlServer, text: str) -> None:
    with pytest.raises(pymysql.err.OperationalError, match=r"Could not parse GTID list|duplicate domain"):
        server.execute(f"SET GLOBAL gtid_slave_pos = '{text}'")
    with pytest.raises(PositionError):
        MariaDbPosition.parse(text)


@pytest.mark.parametrize("text", ["0-1-5,0-2-6", "0-1-5,0-1-6", "0-2-9,0-1-5", "1-1-1,0-2-9,0-1-5"])
def test_states_agree_with_the_server(server: MySqlServer, text: str) -> None:
    ((state, position),) = server.execute(
        "RESET MASTER", f"SET GLOBAL gtid_binlog_state = '{text}'", "SELECT @@gtid_binlog_state, @@gtid_binlog_pos"
    )
    assert str(MariaDbState.parse(text)) == state
    assert str(MariaDbState.parse(text).position) == position


def test_transactions_of_several_domains_and_servers(server: MySqlServer, databases: Callable[..., str]) -> None:
    """A history is written and counted here one by one; the server's state and positions must say the same."""
    rng = random.Random(7)
    name = databases(server)
    server.execute("RESET MASTER", f"CREATE TABLE {name}.t (id INT)")
    connection = server.connect()
    seen: list[MariaDbGtid] = []
    with connection, connection.cursor() as cursor:
        for n in range(40):
            domain, writer = rng.choice((0, 3)), rng.choice((104, 55, 56))
            cursor.execute(f"SET SESSION gtid_domain_id = {domain}, SESSION server_id = {writer}")
            cursor.execute(f"INSERT INTO {name}.t VALUES ({n})")
            cursor.execute("SELECT @@SESSION.last_gtid")
            seen.append(MariaDbGtid.parse(cursor.fetchone()[0]))
            if n % 10 == 9:
                cursor.execute("FLUSH BINARY LOGS")
    ((state_text, position_text),) = server.execute("SELECT @@gtid_binlog_state, @@gtid_binlog_pos")
    state = MariaDbState.parse(state_text)
    # the newest of a domain stands last, the others in no order
    assert sorted(str(state).split(",")) == sorted(state_text.split(","))
    assert str(state.position) == position_text
    assert all(state.has(gtid) for gtid in seen)
    assert not any(state.has(MariaDbGtid(gtid.domain, gtid.server, gtid.number + 40)) for gtid in seen)
    ((at_file,),) = server.execute("SELECT BINLOG_GTID_POS('mysql-bin.000003', 4)")
    begins = MariaDbPosition.parse(at_file)
    assert begins.issubset(state.position)
    # two files of ten each stand before it
    assert [begins.covers(gtid) for gtid in seen] == [True] * 20 + [False] * 20
    assert sum(gtid in state.position - begins for gtid in seen) == (state.position - begins).count == 20
