"""docs/systems/canal.md, block by block: its SQL, its commands, its settings and its YAML, on real servers and a stock Airflow.

Only addresses, passwords and places are others than on the page: see `Theirs.words`. Canal's launcher is `stack/canal.py`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pytest

from airflow_cdc.core.pipeline import sink_name
from stack import cluster
from stack.airflow import AirflowServer
from stack.canal import CanalServer, CanalSettings, make_canal
from stack.installation import User
from stack.mysql import MySqlServer, MySqlSettings
from stack.opensearch import OpenSearchNode, start_opensearch
from stack.process import wait_until
from stack.rabbitmq import RabbitServer, start_rabbitmq
from tests.e2e.stock import stock_airflow
from tests.integration.recovering import meanwhile
from tests.paths import ROOT
from tests.systems.debezium_search import documents

PAGE = ROOT / "docs" / "systems" / "canal.md"
RABBIT = ROOT / "docs" / "systems" / "rabbitmq.md"
SECTION = re.compile(r"^## Set up Canal\n(.*?)^## ", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.DOTALL | re.MULTILINE)
BEFORE = (
    # our own servers have a user of this name already
    "DROP USER 'cdc'@'%'",
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    "CREATE TABLE shop.customers (code VARCHAR(20) PRIMARY KEY, name VARCHAR(40), since DATE)",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, customer VARCHAR(20), amount DECIMAL(12, 2), placed TIMESTAMP(3) NULL)",
    "INSERT INTO shop.customers VALUES ('ada', 'Ada', '1815-12-10'), ('grace', 'Grace 🚢', NULL)",
    "INSERT INTO shop.orders VALUES (1, 'ada', 12.50, '2026-01-02 03:04:05.678'), (2, 'grace', NULL, NULL)",
)
LATER = ("INSERT INTO shop.customers VALUES ('edsger', 'Edsger', NULL)", "DELETE FROM shop.orders WHERE id = 2")
COMPARED = {"customers": ("code", "name"), "orders": ("id", "customer")}
COMMAND_S = 900.0
# two runs of the schedule, and what drivers take on a loaded machine
APPLIED_WITHIN_S = 900.0
pytestmark = pytest.mark.timeout(3600)


@dataclass
class Theirs:
    """What a user has before they read the page, and what is done with its blocks."""

    mysql: MySqlServer
    rabbit: RabbitServer
    node: OpenSearchNode
    airflow: AirflowServer
    canal: CanalServer
    said: list[str] = field(default_factory=list)

    def words(self) -> Mapping[str, str]:
        """What stands on the page → what is used instead."""
        rabbit, search = self.rabbit, self.node.url.rpartition(":")[2]
        command = f"env PYTHONPATH={ROOT} {sys.executable} -m stack.canal {{}} {self.canal.folder}"
        return {
            "http://rabbit.example:15672": f"http://{rabbit.host}:{rabbit.management}",
            "rabbit.example:5672": f"{rabbit.host}:{rabbit.port}",
            "--conn-host rabbit.example --conn-port 5672": f"--conn-host {rabbit.host} --conn-port {rabbit.port}",
            "choose-a-third": rabbit.user.password,
            "db.example:3306": f"{self.mysql.host}:{self.mysql.port}",
            "--conn-host db.example --conn-port 3306": f"--conn-host {self.mysql.host} --conn-port {self.mysql.port}",
            "choose-one": "of-cdc-7f3a",
            "choose-another": "of-canal-91c2",
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-42": self.executed(),
            "--conn-host search.example --conn-port 9200": f"--conn-host 127.0.0.1 --conn-port {search}",
            "/opt/canal/conf": str(self.canal.conf),
            "/opt/canal/logs/shop/shop.log": str(self.canal.log),
            "systemctl start canal": command.format("start"),
            "systemctl stop canal": command.format("stop"),
            "systemctl is-active canal": command.format("status"),
        }

    def executed(self) -> str:
        return str(self.mysql.execute("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")

    def do(self, kind: str, title: str, text: str) -> None:
        """What a reader does with a block."""
        for word, instead in self.words().items():
            text = text.replace(word, instead)
        does: dict[str, Callable[[str, str], None]] = {
            "sql": self._sql,
            "console": self._console,
            "properties": self._settings,
            "yaml": self._registry,
        }
        does[kind](title, text)

    def _sql(self, _title: str, text: str) -> None:
        self.mysql.execute(*filter(None, map(str.strip, text.split(";"))))

    def _console(self, _title: str, text: str) -> None:
        for command in text.replace("\\\n", " ").splitlines():
            done = subprocess.run(
                ["sh", "-c", command],
                env=self.airflow.environment,
                capture_output=True,
                text=True,
                timeout=COMMAND_S,
                check=False,
            )
            self.said.append(f"$ {command}\n{done.stdout}{done.stderr}")
            assert done.returncode == 0, "\n".join(self.said)[-6000:]

    def _settings(self, title: str, text: str) -> None:
        path = self.canal.conf / title if title == "canal.properties" else self.canal.meta.with_name(title)
        path.write_text(f"{path.read_text()}\n{text}")

    def _registry(self, _title: str, text: str) -> None:
        (Path(self.airflow.home) / "pipelines.yaml").write_text(text)

    def mirrored(self) -> bool:
        """Whether readers of the aliases find the rows of the source, and no others."""
        return all(self._equal(table, columns) for table, columns in COMPARED.items())

    def _equal(self, table: str, columns: tuple[str, ...]) -> bool:
        rows = self.mysql.execute(f"SELECT {', '.join(columns)} FROM shop.{table}")
        found = documents(f"{self.node.url}/shop.{sink_name(table)}")
        ours = sorted([str(one.get(name)) for name in columns] for one in found)
        return ours == sorted([str(value) for value in row] for row in rows)


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Theirs]:
    """The servers, with two tables; Canal has the settings that its distribution brings."""
    servers = [MySqlSettings("theirs", server_id=301)]
    world = tmp_path / "world"
    with cluster.start(world, ("mysql",), mysql_settings=servers, airflow_settings=stock_airflow) as stack:
        assert stack.airflow is not None
        mysql = stack.mysql["theirs"]
        mysql.execute(*BEFORE)
        node = start_opensearch(world, stack.logs)
        stack.others["opensearch"] = node.child
        rabbit = start_rabbitmq(world, stack.logs)
        unset = CanalSettings("shop", "", User("", ""), "", "", ("", 0))
        canal = make_canal(tmp_path / "canal", unset)
        try:
            yield Theirs(mysql, rabbit, node, stack.airflow, canal)
        finally:
            canal.stop()
            rabbit.stop()


def test_the_page_leads_from_nothing_to_match(theirs: Theirs) -> None:
    steps = of_the_page()
    shown = "\n".join(text for _, _, text in steps)
    assert [word for word in theirs.words() if word not in shown] == []
    walk(theirs, steps, "canal")


@pytest.mark.slow
def test_rabbitmqs_page_moves_the_messages_of_canals_own_queue(theirs: Theirs) -> None:
    """As docs/systems/rabbitmq.md says: without the stream that Canal's page declares, and with another pipelines.yaml."""
    (registry,) = (
        text for kind, _, text in BLOCK.findall(RABBIT.read_text()) if kind == "yaml" and "pipelines:" in text
    )
    assert "leave out step 2" in RABBIT.read_text()
    steps = [("yaml", "", registry) if kind == "yaml" else (kind, title, text) for kind, title, text in of_the_page()]
    walk(theirs, [step for step in steps if "/api/queues/" not in step[2]], "rabbitmq")


def of_the_page() -> list[tuple[str, str, str]]:
    """What the page says to do: language, title and text of each block."""
    (section,) = SECTION.findall(PAGE.read_text())
    steps = [block for block in BLOCK.findall(section) if block[0] != "text"]
    assert len(steps) >= 8
    return steps


def walk(theirs: Theirs, steps: list[tuple[str, str, str]], page: str) -> None:
    """Do the steps while somebody uses the server; at the end readers find every row, and later changes."""

    def write(stop: Event) -> None:
        """Somebody uses the server."""
        theirs.mysql.execute("CREATE DATABASE others", "CREATE TABLE others.t (n INT)")
        with closing(theirs.mysql.connect(database="others")) as connection, connection.cursor() as cursor:
            while not stop.wait(0.5):
                cursor.execute("REPLACE INTO t VALUES (1)")
                connection.commit()

    with meanwhile(write):
        for kind, title, text in steps:
            theirs.do(kind, title, text)
    transcript = "\n".join(theirs.said)
    Path("build").mkdir(exist_ok=True)
    Path(f"build/{page}-page.txt").write_text(transcript)
    assert "MATCH" in next(said for said in theirs.said if "cdc proof" in said), transcript[-6000:]
    assert "HEALTHY" in next(said for said in theirs.said if "cdc diagnose" in said), transcript[-6000:]
    assert theirs.mirrored()
    theirs.mysql.execute(*LATER)
    assert not theirs.mirrored()
    # `cdc_apply__shop` runs by its schedule: nobody triggers it
    wait_until(lambda: theirs.mirrored() or None, timeout=APPLIED_WITHIN_S, what="later changes", interval=5)
