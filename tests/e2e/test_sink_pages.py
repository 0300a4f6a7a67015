"""The pages of OpenSearch and of a diagnosis alone, done block by block in a fresh home: `make pages-walked`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from stack import cluster
from stack.mysql import MySqlSettings
from stack.opensearch import start_opensearch
from stack.process import wait_until
from stack.shop import connectors
from tests.e2e.sink_pages import COLUMNS, of_page, world
from tests.e2e.test_pages import CREATED, DOCS
from tests.e2e.walking import Reader, blocks, proven, walk
from tests.paths import ROOT
from tests.systems.debezium_search import documents

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def test_opensearchs_page(tmp_path: Path) -> None:
    steps = of_page("search.md", "Set up OpenSearch")
    with world(tmp_path, cluster.ALL) as theirs:
        node = start_opensearch(tmp_path / "world", theirs.stack.logs)
        theirs.stack.others["opensearch"] = node.child
        reader = theirs.reader({"search.example:9200": node.url.removeprefix("http://")})
        walk(reader, steps, "search")
        proven(reader)
        for table, names in COLUMNS.items():
            found = documents(f"{node.url}/crm.{table}")
            assert sorted([str(one.get(name)) for name in names] for one in found) == theirs.rows(table)


def test_a_diagnosis_alone_needs_no_running_airflow(tmp_path: Path) -> None:
    steps = blocks(DOCS / "how-to" / "without-sink.md", "Diagnose a connector in ten minutes")
    servers = [MySqlSettings("theirs", server_id=301)]
    with cluster.start(tmp_path / "world", ("mysql", "kafka", "connect"), mysql_settings=servers) as stack:
        mysql, worker = stack.mysql["theirs"], stack.connect
        assert worker is not None
        assert stack.kafka is not None
        mysql.execute("CREATE DATABASE crm CHARACTER SET utf8mb4", *CREATED)
        options = {
            "topic.prefix": "crm",
            "snapshot.mode": "no_data",
            "database.include.list": "crm",
            "table.include.list": "crm.people,crm.notes",
        }
        connectors.create(worker, "crm", connectors.config("shop", mysql, stack.kafka.bootstrap, **options))
        wait_until(lambda: connectors.stored(worker, "crm") or None, timeout=120, what="the connector's first offset")
        words = {
            "choose-one": mysql.cdc.password,
            "db.example:3306": f"{mysql.host}:{mysql.port}",
            "http://connect.example:8083": worker.url,
            "kafka.example:9092": stack.kafka.bootstrap,
            "/data/control.db": f"{tmp_path}/control.db",
        }
        programs = f"{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin"
        environment = {"AIRFLOW_HOME": str(tmp_path / "airflow"), "PATH": programs, "HOME": str(tmp_path)}
        environment |= {"AIRFLOW__CORE__LOAD_EXAMPLES": "False", "PYTHONPATH": str(ROOT)}
        reader = Reader(environment, tmp_path, words, lambda _statements: None)
        walk(reader, steps, "without-sink")
        assert "HEALTHY" in reader.output("cdc diagnose")
        assert mysql.cdc.password not in reader.output("cdc init")
