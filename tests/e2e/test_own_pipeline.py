"""A new user's own pipeline on a stock Airflow, by the documented files alone: nothing is set or done that they do not say."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stack import cluster
from stack.airflow import AirflowServer
from stack.connect import ConnectWorker
from stack.mysql import MySqlServer, MySqlSettings
from stack.process import wait_until
from stack.shop.check import check
from tests.e2e.stock import stock_airflow
from tests.e2e.walking import PASSWORDS

EXAMPLES = Path(__file__).parents[2] / "examples"
TABLES = ["people", "notes"]
THEIRS = (
    # our own servers have users of these names already
    "DROP USER 'cdc'@'%', 'debezium'@'%'",
    "CREATE DATABASE crm",
    "CREATE TABLE crm.people (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40), born DATE, UNIQUE (name))",
    "CREATE TABLE crm.notes (person INT, line SMALLINT, text VARCHAR(200), PRIMARY KEY (person, line))",
    "INSERT INTO crm.people (name, born) VALUES ('Ada', '1815-12-10'), ('Grace 🚢', '1906-12-09'), ('Edsger', NULL)",
    "INSERT INTO crm.notes VALUES (1, 1, 'engine'), (1, 2, 'notes  '), (2, 1, '')",
)
LATER = ("INSERT INTO crm.people (name) VALUES ('Barbara')", "DELETE FROM crm.notes WHERE person = 1 AND line = 2")
# two runs of the schedule beside the first comparison, and what drivers take on a loaded machine
APPLIED_WITHIN_S = 1200.0
pytestmark = pytest.mark.timeout(3600)


@dataclass(frozen=True)
class Theirs:
    """What a user has before they read the page: a database, Kafka, Connect, a folder for a lake, and a stock Airflow."""

    mysql: MySqlServer
    connect: ConnectWorker
    bootstrap: str
    airflow: AirflowServer
    lake: dict[str, str]

    @property
    def admin(self) -> dict[str, Any]:
        server = self.mysql
        return {"host": server.host, "port": server.port, "user": server.user, "password": server.password}

    def execute(self, *statements: str) -> None:
        with closing(self.mysql.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def mirrored(self) -> bool:
        """Whether every row of the lake is one of the source, and the other way round."""
        return all(table.equal for table in check(self.admin, self.lake, "crm", "crm", TABLES))


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Theirs]:
    """The servers, with rows and the users of own-pipeline.sql."""
    home = tmp_path / "lake"
    home.mkdir()
    lake = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse"}
    servers = [MySqlSettings("theirs", server_id=301)]
    with cluster.start(tmp_path / "world", mysql_settings=servers, airflow_settings=stock_airflow) as stack:
        if stack.connect is None or stack.kafka is None or stack.airflow is None:
            raise AssertionError("the stack started without a server that was asked for")
        world = Theirs(stack.mysql["theirs"], stack.connect, stack.kafka.bootstrap, stack.airflow, lake)
        sql = (EXAMPLES / "own-pipeline.sql").read_text()
        for example, password in PASSWORDS.items():
            sql = sql.replace(f"'{example}'", f"'{password}'")
        world.execute(*THEIRS, *filter(None, map(str.strip, sql.split(";"))))
        yield world


def test_from_a_database_to_a_proven_copy(theirs: Theirs) -> None:
    addresses = {
        "MYSQL": f"{theirs.mysql.host}:{theirs.mysql.port}",
        "CONNECT": theirs.connect.url,
        "KAFKA": theirs.bootstrap,
        "CATALOG": json.dumps(theirs.lake),
        "CDC_MYSQL_PASSWORD": PASSWORDS["choose-one"],
        "DEBEZIUM_PASSWORD": PASSWORDS["choose-another"],
    }
    done = subprocess.run(
        ["sh", str(EXAMPLES / "own-pipeline.sh")],
        env={**theirs.airflow.environment, **addresses},
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    transcript = done.stdout + done.stderr
    Path("build").mkdir(exist_ok=True)
    Path("build/own-pipeline.txt").write_text(transcript)
    assert done.returncode == 0, transcript[-6000:]
    named = [re.search(word, transcript) is not None for word in ("TABLE_ADDED", "MATCH", "HEALTHY")]
    assert all(named), transcript[-6000:]
    assert not any(password in transcript for password in PASSWORDS.values())
    assert theirs.mirrored()
    theirs.execute(*LATER)
    # `cdc_apply__crm` runs by its schedule: nobody triggers it
    wait_until(
        lambda: theirs.mirrored() or None, timeout=APPLIED_WITHIN_S, what="later changes in the lake", interval=5
    )
