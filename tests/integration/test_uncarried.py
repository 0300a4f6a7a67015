"""Rows with values that Debezium's events don't carry are found on a real server before a recovery begins."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import create_autospec

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.uncarried import looks
from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.recovery import Decision
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.decisions.diagnosis.strategy import Plan
from airflow_cdc.flows import decide as decide_flow
from airflow_cdc.flows import doctor, recoverable
from airflow_cdc.flows import open as opening
from airflow_cdc.flows.carried import MOST_KEYS, Changed, look_through
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.schema import read_table_defs
from airflow_cdc.transports.kafka.client import KafkaTransport
from tests.integration.apply_scene import Connector
from tests.unit.builders import PIPELINE

if TYPE_CHECKING:
    from pathlib import Path

    from stack.mysql import MySqlServer
    from tests.integration.rig import Rig

COLUMNS = (
    "id int PRIMARY KEY, j json, d date, dt datetime(6), v varchar(9)",
    "k varchar(9) CHARACTER SET latin1 PRIMARY KEY",
)
CARRIED = (
    "j = JSON_OBJECT('a', '10:11:12.000000', 'b', 'base64:type15:AP8=', 'c', 1.5e0, 'd', 12)",
    "j = JSON_OBJECT('date', CAST('2020-02-03' AS DATE), 'n', CAST('1.123456789012345678901234' AS DECIMAL(40,30)))",
    "j = 'null'",
    "d = '0000-00-00'",
    "d = '0100-01-01', dt = '9999-12-31'",
    "v = X'C281'",
)
UNCARRIED = {
    "j = JSON_OBJECT('a', CAST('-630:59:59' AS TIME))": "j",
    "j = JSON_ARRAY(1, JSON_OBJECT('at', CAST('2020-02-03 04:05:06' AS DATETIME)))": "j",
    "j = CAST(TIME'10:11:12' AS JSON)": "j",
    "j = JSON_OBJECT('a', CAST(X'00ff' AS BINARY))": "j",
    "j = JSON_OBJECT('a', b'101')": "j",
    "d = '0024-05-06'": "d",
    "dt = '0099-12-31 23:59:59.999999'": "dt",
}


@pytest.fixture
def place(mysql: MySqlServer, databases: Callable[..., str]) -> str:
    schema = databases()
    mysql.execute(*(f"CREATE TABLE {schema}.t{at} ({columns})" for at, columns in enumerate(COLUMNS)))
    return schema


@pytest.fixture
def hits(mysql: MySqlServer, place: str) -> Callable[..., list[str]]:
    """The columns of `place`'s tables in which a look finds a row."""
    source = MySqlSource(MySqlEndpoint(mysql.host, mysql.port, mysql.cdc.user, mysql.cdc.password))

    def columns(*, years_adjusted: bool = True) -> list[str]:
        with mysql.connect() as connection:
            tables = read_table_defs(connection, [f"{place}.t0", f"{place}.t1"])
        wanted = [look for table in tables.values() for look in looks(table, years_adjusted=years_adjusted)]
        assert len(wanted) == (4 if years_adjusted else 2)
        return [look.column for look in wanted if source.has_row(look.table, look.condition, 20)]

    return columns


def test_inv_31_values_that_events_carry_are_left_alone(
    mysql: MySqlServer, place: str, hits: Callable[..., Any]
) -> None:
    mysql.execute(
        "SET SESSION sql_mode = ''",
        *(f"INSERT INTO {place}.t0 SET id = {at}, {value}" for at, value in enumerate(CARRIED)),
    )
    mysql.execute(f"INSERT INTO {place}.t1 VALUES (X'80'), (X'E9'), (X'18D818'), ('81')")
    assert hits() == []


@pytest.mark.parametrize("value", UNCARRIED)
def test_inv_31_a_row_that_events_garble_is_found(
    mysql: MySqlServer, place: str, hits: Callable[..., Any], value: str
) -> None:
    mysql.execute("SET SESSION sql_mode = ''", f"INSERT INTO {place}.t0 SET id = 1, {value}")
    assert hits() == [UNCARRIED[value]]
    assert (hits(years_adjusted=False) == []) is (UNCARRIED[value] != "j")


@pytest.mark.parametrize("code", ["81", "618D", "8F62", "90", "61629D"])
def test_inv_31_a_latin1_key_that_debezium_cannot_read_is_found(
    mysql: MySqlServer, place: str, hits: Callable[..., Any], code: str
) -> None:
    mysql.execute(f"INSERT INTO {place}.t1 VALUES (X'{code}')")
    assert hits() == ["k"]


@pytest.mark.parametrize("value", UNCARRIED)
def test_inv_31_a_changed_row_that_events_garble_is_refused_by_its_key(
    mysql: MySqlServer, place: str, changed: Changed, value: str
) -> None:
    """What an apply asks of the source: about the keys of its batch, and no other row."""
    mysql.execute(
        "SET SESSION sql_mode = ''", f"INSERT INTO {place}.t0 SET id = 1, {value}", f"INSERT INTO {place}.t0 SET id = 2"
    )
    with mysql.connect() as connection:
        (table,) = read_table_defs(connection, [f"{place}.t0"]).values()
    changed.refuse(table, ["2"])
    changed.refuse(table, [])
    with pytest.raises(SchemaError, match=rf"column {UNCARRIED[value]} of {place}\.t0"):
        changed.refuse(table, [str(n) for n in range(2, 5_000)] + ["1"])
    with pytest.raises(SchemaError, match=rf"column {UNCARRIED[value]} of {place}\.t0"):
        changed.refuse(table, ["2"] * (MOST_KEYS + 1))  # too many to ask about: the whole table is looked through
    mysql.execute(f"UPDATE {place}.t0 SET j = NULL, d = NULL, dt = NULL")
    changed.refuse(table, ["1", "2"])


@pytest.fixture
def changed(mysql: MySqlServer) -> Changed:
    """Of a connector that adjusts years, as Debezium does by default."""
    source = MySqlSource(MySqlEndpoint(mysql.host, mysql.port, mysql.cdc.user, mysql.cdc.password))
    clients = Parts(
        source, *(create_autospec(kind, instance=True) for kind in (DebeziumConnector, KafkaTransport, Lake, Control))
    )
    capture = ConnectorSettings.from_config(
        {"topic.prefix": "shop", "connector.class": "io.debezium.connector.mysql.MySqlConnector"}
    )
    return Changed(Run(PIPELINE, clients, "r1", "/reports"), capture)


@pytest.fixture
def run(rig: Rig, tmp_path: Path) -> Run:
    rig.run(
        "CREATE TABLE items (id INT PRIMARY KEY, j JSON, note VARCHAR(20) CHARACTER SET latin1)",
        "INSERT INTO items VALUES (1, JSON_OBJECT('at', CAST('10:11:12' AS TIME)), 'a')",
    )
    return rig.recovery_run(["items"], tmp_path, Connector(rig.schema))


@pytest.fixture(autouse=True)
def no_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """These runs have no topics whose records could be looked at."""
    monkeypatch.setattr(recoverable, "refuse_unreadable", lambda *_: ())


def test_inv_31_one_refusal_names_every_column_of_every_table(rig: Rig, tmp_path: Path) -> None:
    time = "JSON_OBJECT('at', CAST('10:11:12' AS TIME))"
    rig.run(
        "CREATE TABLE one (id INT PRIMARY KEY, j JSON, k JSON, fine JSON, d DATE)",
        f"INSERT INTO one VALUES (1, {time}, {time}, '1', '0024-05-06')",
        "CREATE TABLE two (id INT PRIMARY KEY, l JSON)",
        f"INSERT INTO two VALUES (1, {time})",
    )
    run = rig.recovery_run(["one", "two"], tmp_path, Connector(rig.schema))
    decision = {"tables": list(run.pipeline.source.tables), "plan": {"strategy": "full_snapshot"}}
    with pytest.raises(SchemaError) as refused:
        opening.open_recovery(run, Decision.from_json(decision))
    text = str(refused.value)
    for column, table in (("j", "one"), ("k", "one"), ("d", "one"), ("l", "two")):
        assert f"column {column} of {rig.schema}.{table} (the row with id=1)" in text
    assert "column fine" not in text
    # once for each table that it helps
    assert (text.count("Store them as text"), text.count("enable.time.adjuster=false")) == (2, 1)


def test_inv_31_a_recovery_of_such_a_table_is_refused_before_it_begins(rig: Rig, run: Run) -> None:
    decision = {"tables": list(run.pipeline.source.tables), "plan": {"strategy": "full_snapshot"}}
    with pytest.raises(SchemaError, match=r"JSON documents hold TIME.*column j of .*items.*Store them as text"):
        opening.open_recovery(run, Decision.from_json(decision))
    assert run.clients.control.state()["recovery"] is None
    assert {check.state for check in doctor._carried(run)} == {"bad", "warn"}
    rig.run("UPDATE items SET j = NULL")
    assert dict(look_through(run, [rig.table("items")])) == {f"{rig.schema}.items": ()}


def test_inv_31_a_column_in_a_character_set_that_debezium_misreads_is_refused(rig: Rig, run: Run) -> None:
    rig.run("ALTER TABLE items DROP j, MODIFY note VARCHAR(20) CHARACTER SET koi8u")
    decision = {"tables": list(run.pipeline.source.tables), "plan": {"strategy": "full_snapshot"}}
    with pytest.raises(SchemaError, match=r"character set koi8u.*column note.*utf8mb4"):
        opening.open_recovery(run, Decision.from_json(decision))
    (check,) = [check for check in doctor._carried(run) if check.state == "bad"]
    assert (check.state, "koi8u" in check.found) == ("bad", True)


def test_inv_31_the_plan_says_so_first(rig: Rig, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was seen and diagnosed stands still here: any problem whose plan would read rows."""
    plan = Plan("full_snapshot", (), "nothing", destructive=False, needs_approval=False, reason="")
    diagnosis = Diagnosis("GTID_PURGED", "", {}, ("full_snapshot",), "")
    for name, answer in (("diagnose", diagnosis), ("store_observation", None), ("make_plan", plan), ("fewer_rows", {})):
        monkeypatch.setattr(decide_flow, name, lambda *_, answer=answer, **__: answer)
    monkeypatch.setattr(decide_flow, "observe", lambda _: SimpleNamespace(taken_at=""))
    rig.run("UPDATE items SET j = NULL")
    assert decide_flow.decide(run)["plan"]["strategy"] == "full_snapshot"
    rig.run("ALTER TABLE items MODIFY note VARCHAR(20) CHARACTER SET hp8")
    refused = decide_flow.decide(run)["plan"]
    assert (refused["strategy"], refused["refused"]) == ("none", True)
    assert "character set hp8" in refused["reason"]


def test_a_row_is_named_whatever_bytes_its_key_has(rig: Rig, tmp_path: Path) -> None:
    """Such bytes are no characters: read as a text they ended the command with a UnicodeDecodeError."""
    time = "JSON_OBJECT('at', CAST('10:11:12' AS TIME))"
    rig.run(
        "CREATE TABLE raw (k VARBINARY(9), b BIT(9), v VARCHAR(9) CHARACTER SET utf16, j JSON, PRIMARY KEY (k, b, v))",
        f"INSERT INTO raw VALUES (x'ED01FF', b'100000001', 'é', {time})",
    )
    run = rig.recovery_run(["raw"], tmp_path, Connector(rig.schema))
    decision = {"tables": list(run.pipeline.source.tables), "plan": {"strategy": "full_snapshot"}}
    with pytest.raises(SchemaError, match=r"the row with k=0xED01FF, b=257, v=é"):
        opening.open_recovery(run, Decision.from_json(decision))
