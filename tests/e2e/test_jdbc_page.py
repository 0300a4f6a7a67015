"""docs/systems/jdbc.md, block by block: from a database and a JDBC sink to a recovered, proven copy, on a stock Airflow.

Only addresses, passwords and a file are others than on the page. Between its two sections somebody loses the position.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stack import cluster
from stack.connect import ConnectWorker
from stack.mysql import MySqlServer, MySqlSettings
from stack.postgres import PostgresServer
from stack.process import wait_until
from stack.shop import connectors
from stack.shop.check import MySqlRows, compare_with
from stack.shop.postgres.copies import PostgresCopies
from tests.e2e.stock import stock_airflow
from tests.e2e.walking import Block, Reader, blocks, proven, recorded
from tests.paths import ROOT

PAGE = ROOT / "docs" / "systems" / "jdbc.md"
TABLES = ["people", "notes"]
BEFORE = (
    # our own servers have users of these names already
    "DROP USER 'cdc'@'%', 'debezium'@'%'",
    "CREATE DATABASE crm CHARACTER SET utf8mb4",
    "CREATE TABLE crm.people (id INT PRIMARY KEY, name VARCHAR(40), born DATE)",
    "CREATE TABLE crm.notes (person INT, line SMALLINT, text VARCHAR(200), PRIMARY KEY (person, line))",
    "INSERT INTO crm.people VALUES (1, 'Ada', '1815-12-10'), (2, 'Grace 🚢', '1906-12-09'), (3, 'Edsger', NULL)",
    "INSERT INTO crm.notes VALUES (1, 1, 'engine'), (1, 2, 'notes  '), (2, 1, '')",
    # one row in a hundred may go without anybody's approval
    "INSERT INTO crm.people WITH RECURSIVE s(n) AS (SELECT 10 UNION ALL SELECT n + 1 FROM s WHERE n < 300) SELECT n, 'many', NULL FROM s",
)
MEANWHILE = (
    "DELETE FROM crm.people WHERE id = 2",
    "UPDATE crm.notes SET text = 'changed' WHERE person = 1 AND line = 1",
    "INSERT INTO crm.people VALUES (4, 'Barbara', '1939-11-07')",
    "FLUSH BINARY LOGS",
)
PASSWORDS = {
    "choose-one": "of-cdc-7f3a",
    "choose-another": "of-debezium-91c2",
    "choose-a-third": "of-sink-40b7",
    "choose-a-fourth": "of-copies-5d1e",
}
EQUAL_S = 180.0
pytestmark = pytest.mark.timeout(3600)


@dataclass(frozen=True, slots=True)
class Theirs:
    """What a user has before they read the page, and their terminal."""

    mysql: MySqlServer
    copies: PostgresServer
    connect: ConnectWorker
    reader: Reader

    def walk(self, section: str) -> None:
        """Do what a section says, each block where it says."""
        for step in blocks(PAGE, section):
            if step.title == "copies":
                text = step.text
                for word, instead in self.reader.words.items():
                    text = text.replace(word, instead)
                self.copies.execute(*filter(None, map(str.strip, text.split(";"))))
            else:
                self.reader.do(step)

    def lose(self) -> str:
        """Rows change while the connector is down, and the log of it is purged; what the connector says then."""
        connectors.stop(self.connect, "crm")
        self.mysql.execute(*MEANWHILE)
        ((newest, *_),) = self.mysql.execute("SHOW MASTER STATUS")
        self.mysql.execute(f"PURGE BINARY LOGS TO '{newest}'")
        return connectors.failure(self.connect, "crm")

    def copied(self) -> bool:
        """Whether every row of the source is in the copies, and no other."""
        ours, theirs = self.mysql, self.copies
        login = {"host": ours.host, "port": ours.port, "user": ours.user, "password": ours.password}
        other = {"host": theirs.host, "port": theirs.port, "user": theirs.user, "password": theirs.password}
        sink = PostgresCopies({**other, "dbname": "postgres"}, "crm")
        return all(table.equal for table in compare_with(MySqlRows(login, "crm"), sink, TABLES))


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Theirs]:
    with cluster.start(
        tmp_path / "world",
        (*cluster.ALL, "postgres"),
        mysql_settings=[MySqlSettings("theirs", server_id=301)],
        airflow_settings=stock_airflow,
        connect_plugins=("debezium-jdbc",),
    ) as stack:
        if stack.connect is None or stack.kafka is None or stack.airflow is None:
            raise AssertionError("the stack started without a server that was asked for")
        mysql, copies = stack.mysql["theirs"], stack.postgres["postgres"]
        mysql.execute(*BEFORE)
        copies.execute("DROP OWNED BY cdc, debezium", "DROP ROLE cdc, debezium")
        words = {
            **PASSWORDS,
            "db.example:3306": f"{mysql.host}:{mysql.port}",
            "copies.example:5432": f"{copies.host}:{copies.port}",
            "http://connect.example:8083": stack.connect.url,
            "kafka.example:9092": stack.kafka.bootstrap,
            "/data/control.db": f"{tmp_path}/control.db",
        }

        def ask(statements: list[str]) -> None:
            mysql.execute(*statements)

        reader = Reader(stack.airflow.environment, tmp_path, words, ask)
        yield Theirs(mysql, copies, stack.connect, reader)


def test_the_page_leads_from_a_jdbc_sink_to_a_recovered_proven_copy(theirs: Theirs) -> None:
    reader = theirs.reader
    shown = "\n".join(step.text for step in blocks(PAGE))
    assert [word for word in reader.words if word not in shown] == []
    with recorded(reader, "jdbc"):
        theirs.walk("Set up a JDBC sink")
        wait_until(lambda: theirs.copied() or None, timeout=EQUAL_S, what="the first copy")
        # what the page says that one should see
        assert re.search(r"\bbad\b", reader.output("cdc doctor")) is None
        assert "MATCH" in reader.output("cdc verify")
        assert "no longer available" in theirs.lose()
        assert not theirs.copied()
        theirs.walk("Recover")
    proven(reader, PASSWORDS.values())
    wait_until(lambda: theirs.copied() or None, timeout=EQUAL_S, what="the corrected copy")
    # somebody changes the copies by hand: no position is lost, and the connector rests for a moment alone
    theirs.copies.execute(
        "UPDATE crm.notes SET text = 'by hand' WHERE person = 2", "DELETE FROM crm.people WHERE id = 4"
    )
    assert not theirs.copied()
    with recorded(reader, "jdbc"):
        reader.do(Block("console", "", "airflow cdc repair crm --wait --yes\nairflow cdc diagnose crm\n"))
    assert "MATCH" in reader.output("cdc repair")
    wait_until(lambda: theirs.copied() or None, timeout=EQUAL_S, what="the repaired copy")
