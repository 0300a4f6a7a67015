"""Canal's two files, what they say of topics and tables, and the commands of an operator."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.connectors.canal.capture import DESTINATION, CanalCapture, matches, read_config, start_of
from airflow_cdc.connectors.canal.endpoint import CanalEndpoint
from airflow_cdc.connectors.canal.events.mysql import TIME_ZONE
from airflow_cdc.connectors.canal.kind import CanalSettings
from airflow_cdc.connectors.commands import Commands
from airflow_cdc.connectors.java_properties import parse
from airflow_cdc.core.errors import ConfigError, ConnectorError, SchemaError
from airflow_cdc.core.settings import Reader
from airflow_cdc.kinds import WINGS
from tests.unit.connectors.canal.settings import FOLLOWED
from tests.unit.tables import column, table

BASE = {"canal.serverMode": "kafka", "canal.mq.topic": "shop", DESTINATION: "shop"}


def test_properties_are_read_as_java_reads_them() -> None:
    text = "# a comment\n! another\n a=1\nb : 2\nc 3\nd=x\\\n   y\ne=.*\\\\..*\nf=\\u00e9\\t.\ng\\:h=i=j\nempty=\n"
    assert parse(text) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "xy",
        "e": r".*\..*",
        "f": "é\t.",
        "g:h": "i=j",
        "empty": "",
    }


def test_the_destinations_file_wins_and_a_missing_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "canal.properties").write_text("canal.serverMode=kafka\ncanal.mq.topic=all\n")
    with pytest.raises(ConnectorError, match=r"shop/instance\.properties"):
        read_config(str(tmp_path), "shop", "Canal")
    (tmp_path / "shop" / "instance.properties").write_text("canal.mq.topic=shop\n")
    assert read_config(str(tmp_path), "shop", "Canal") == BASE


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"canal.serverMode": "tcp"}, "canal.serverMode"),
        ({"canal.mq.topic": ""}, "canal.mq.topic"),
        ({"canal.mq.dynamicTopic": r".*\..*"}, "canal.mq.dynamicTopic"),
        ({"canal.instance.filter.dml.delete": "TRUE"}, "deletes are left out"),
        ({"canal.instance.filter.black.field": "shop.t:v"}, "columns are left out"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(setting: dict[str, str], said: str) -> None:
    """The cursor can be read whatever these say (INV 40): only rows are refused."""
    capture = CanalCapture.from_config({**BASE, **setting})
    assert said in str(capture.rows_refused)
    with pytest.raises(ConfigError, match=said):
        capture.check_table(KEYED)
    assert CanalCapture.from_config(BASE).topic_of("shop.t") == "shop"


KEYED = table(column("id", "int", nullable=False), column("name", "varchar(40)", charset="utf8mb4"), key=("id",))


def test_a_table_that_the_filters_pass_over_is_refused() -> None:
    CanalCapture.from_config(BASE).check_read(KEYED)
    for key, value in (("regex", r"other\..*,shop\.u"), ("black.regex", r"SHOP\.T")):
        with pytest.raises(ConfigError, match=r"does not read shop\.t"):
            CanalCapture.from_config({**BASE, f"canal.instance.filter.{key}": value}).check_table(KEYED)
    assert matches("(", "shop.t")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"canal.instance.gtidon": "false"}, "the events are not placed in the log"),
        ({"canal.instance.tsdb.enable": "true"}, "definitions of its own store"),
        ({"canal.mq.partitionHash": ".*:id"}, "the order of changes is lost"),
        ({"canal.instance.filter.query.ddl": "true"}, "leaves out DDL"),
        ({"canal.instance.connectionCharset": "GBK"}, "is not UTF-8"),
    ],
)
def test_settings_with_which_no_rows_are_taken_from_events(setting: dict[str, str], said: str) -> None:
    good = CanalCapture.from_config(FOLLOWED)
    good.check_table(KEYED)
    assert not good.observed_only
    bad = CanalCapture.from_config({**FOLLOWED, **setting})
    assert bad.observed_only
    with pytest.raises(ConfigError, match=said):
        bad.check_table(KEYED)


def test_events_are_flat_json_unless_the_server_is_told_otherwise() -> None:
    given = {name: value for name, value in FOLLOWED.items() if name != "canal.mq.flatMessage"}
    for setting, protobuf in (
        ({}, False),
        ({"canal.mq.flatMessage": "TRUE"}, False),
        ({"canal.mq.flatMessage": "false"}, True),
    ):
        capture = CanalCapture.from_config({**given, **setting})
        capture.check_table(KEYED)
        assert capture.protobuf is protobuf


def test_a_table_whose_rows_events_do_not_carry_is_refused_by_name() -> None:
    capture = CanalCapture.from_config(FOLLOWED)
    with pytest.raises(SchemaError, match="it has no key"):
        capture.check_table(replace(KEYED, key=()))
    odd = (*KEYED.columns, column("old", "varchar(40)", charset="latin1"), column("at", "timestamp"))
    with pytest.raises(SchemaError, match=r"old \(latin1 text is decoded as UTF-8\)"):
        capture.check_table(replace(KEYED, columns=odd))
    nowhere = CanalCapture.from_config({**FOLLOWED, TIME_ZONE: ""})
    with pytest.raises(SchemaError, match=r"at \(a TIMESTAMP is written in the time zone"):
        nowhere.check_table(replace(KEYED, columns=odd))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "changes before it are lost"),
        ({"canal.instance.master.journal.name": "b.000001"}, "the whole file is sent again"),
        ({"canal.instance.master.journal.name": "b.000001", "canal.instance.master.position": "4"}, "b.000001:4"),
        ({"canal.instance.gtidon": "true", "canal.instance.master.gtid": "u:1-3"}, "after u:1-3"),
    ],
)
def test_where_canal_begins_without_a_cursor(config: dict[str, str], words: str) -> None:
    assert words in start_of(config)


def endpoint(**commands: Any) -> CanalEndpoint:
    return CanalEndpoint("localhost", **commands)


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_status_is_never_guessed() -> None:
    assert Commands(endpoint(status=python(""))).running() is True
    assert Commands(endpoint(status=python("raise SystemExit(3)"))).running() is False
    failing = (python("print('password=hush-1'); raise SystemExit(1)"), ("/no/such/command",), ())
    for status in failing:
        with pytest.raises(ConnectorError, match=r"connector\.status") as error:
            Commands(endpoint(status=status)).running()
        assert "hush-1" not in str(error.value)


def test_a_start_that_leaves_a_server_behind_returns(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        "import subprocess, sys, pathlib; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))"
    )
    Commands(endpoint(start=python(code))).start(30)
    os.kill(int(note.read_text()), signal.SIGKILL)
    with pytest.raises(ConnectorError, match="ended with 7"):
        Commands(endpoint(stop=python("raise SystemExit(7)"))).stop(30)
    with pytest.raises(ConnectorError, match="did not end within"):
        Commands(endpoint(stop=python("import time; time.sleep(60)"))).stop(0.2)


def test_commands_get_a_few_variables_and_those_that_the_pipeline_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the worker's whole environment: it holds Airflow's key, its database and its connections."""
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "hush-1")
    monkeypatch.setenv("AIRFLOW_CONN_X", "hush-2")
    monkeypatch.setenv("JAVA_HOME", "/jdk")
    monkeypatch.setenv("TZ", "UTC")
    code = "import json, os; print(json.dumps(dict(os.environ))); raise SystemExit(1)"
    with pytest.raises(ConnectorError) as error:
        Commands(endpoint(status=python(code), environment=("JAVA_HOME", "OPTS=-Xmx1g =x", "NOT_SET"))).running()
    text = str(error.value)
    given = json.loads(text[text.index("{") : text.rindex("}") + 1])
    usual = {name: value for name in ("PATH", "HOME", "LANG", "TZ") if (value := os.environ.get(name))}
    assert {k: v for k, v in given.items() if k != "LC_CTYPE"} == {**usual, "JAVA_HOME": "/jdk", "OPTS": "-Xmx1g =x"}


def test_commands_are_words_and_no_shell_reads_them() -> None:
    written: dict[str, Any] = {
        "kind": "canal", "conn_id": "c", "name": "shop", "conf": "/conf",
        "start": "run 'a b' $HOME", "stop": "stop", "status": "status",
    }  # fmt: skip
    reader = Reader(WINGS.__getitem__)
    part = reader.settings(CanalSettings, written)
    assert part is not None, reader.faults
    at = part.at(CanalEndpoint("zk:2181"))
    assert (at.start, at.destination, at.cursor) == (("run", "a b", "$HOME"), "shop", "file")
    kept_in_zookeeper = reader.settings(CanalSettings, {**written, "cursor": "zookeeper", "log": "/log"})
    assert kept_in_zookeeper is not None
    elsewhere = kept_in_zookeeper.at(CanalEndpoint("zk:2181"))
    assert (elsewhere.cursor, elsewhere.log, elsewhere.conf) == ("zookeeper", "/log", "/conf")
    zoned = reader.settings(CanalSettings, {**written, "time_zone": "Asia/Shanghai"})
    assert zoned is not None
    assert zoned.at(CanalEndpoint("zk:2181")).time_zone == "Asia/Shanghai"
    assert reader.settings(CanalSettings, {**written, "time_zone": "Mars"}) is None
    assert reader.faults[0].key == "time_zone"
    assert reader.settings(CanalSettings, {**written, "stop": "stop 'now"}) is None
    assert reader.faults[1].key == "stop"


REFUSED: dict[str, dict[str, str | None]] = {
    "a client of one's own": {"canal.serverMode": "tcp"},
    "another system": {"canal.serverMode": "rocketMQ"},
    "topics by table": {"canal.mq.dynamicTopic": ".*"},
    "no topic": {"canal.mq.topic": None},
    "no queue": {"canal.serverMode": "rabbitMQ"},
    "no rows": {"canal.instance.filter.rows": "true"},
    "no deletes": {"canal.instance.filter.dml.delete": "true"},
    "no errors": {"canal.instance.filter.table.error": "true"},
    "some columns": {"canal.instance.filter.field": "shop.t:id"},
    "other columns": {"canal.instance.filter.black.field": "shop.t:v"},
    "no sets": {"canal.instance.gtidon": "false"},
    "definitions of its own": {"canal.instance.tsdb.enable": "true"},
    "several partitions": {"canal.mq.partitionHash": ".*"},
    "no statements": {"canal.instance.filter.query.ddl": "true"},
    "another character set": {"canal.instance.connectionCharset": "GBK"},
    "all at once": {"canal.serverMode": "tcp", "canal.mq.partitionHash": ".*", "canal.instance.gtidon": None},
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_inv_43_rows_are_followed_once_the_advice_is(name: str) -> None:
    """Each setting that keeps rows from being taken says what to set instead, and that is enough."""
    config = {key: value for key, value in {**FOLLOWED, **REFUSED[name]}.items() if value is not None}
    keyed = table(column("id", "int"), key=("id",))
    with pytest.raises(ConfigError) as refused:
        CanalCapture.from_config(config).check_table(keyed)
    assert str(CanalCapture.from_config(config).rows_refused).endswith(refused.value.todo)
    advice, _, _ = refused.value.todo.partition("; then restart Canal.")
    for one in advice.split("; "):
        verb, _, what = one.partition(" ")
        key, _, value = what.partition("=")
        assert verb in {"Set", "Remove"}, one
        config = {other: text for other, text in config.items() if other != key}
        config |= {key: value or "shop"} if verb == "Set" else {}
    CanalCapture.from_config(config).check_table(keyed)
    assert CanalCapture.from_config(config).rows_refused is None
