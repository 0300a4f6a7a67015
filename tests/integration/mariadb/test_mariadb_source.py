"""A MariaDB 10.11 as a source: what is observed, what is absent, and what the diagnosis makes of it. Nothing is changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import create_autospec

import pymysql
import pytest

import stack
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import MissingPrivilegeError, SourceError
from airflow_cdc.core.observation import (
    ConnectorFacts,
    ControlFacts,
    Observation,
    SinkFacts,
    SinkTableFacts,
    SourceFacts,
    TaskState,
    TransportFacts,
    Unknown,
)
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.flows import doctor
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.kind import IcebergSettings
from airflow_cdc.sources.errors import SourceSettingError
from airflow_cdc.sources.mariadb.client import MariaDbSource
from airflow_cdc.sources.mariadb.gtid import MariaDbGtid
from airflow_cdc.sources.mariadb.kind import MariaDbSettings
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.facts import EventBoundary
from airflow_cdc.sources.mysql.position import BinlogPosition
from airflow_cdc.sources.mysql.probe import began, inspect_position
from airflow_cdc.sources.mysql.schema import read_table_defs
from airflow_cdc.sources.mysql.server_log import list_binlog_files
from airflow_cdc.sources.mysql.types import words_of
from airflow_cdc.transports.kafka.client import KafkaTransport
from airflow_cdc.transports.kafka.kind import KafkaSettings
from stack.mariadb import CDC_PRIVILEGES
from stack.mysql import MySqlServer, MySqlSettings
from stack.process import end
from stack.versions import mariadb_series
from tests.diagnosing import diagnose, make_plan, stored
from tests.integration.mariadb.support import end_of, endpoint, here, position_in, purge, rotate

pytestmark = pytest.mark.slow  # its server comes from Debian's packages, which not every machine can fetch


@pytest.fixture
def poor(server: MySqlServer) -> Iterator[MariaDbSource]:
    server.execute("CREATE OR REPLACE USER poor IDENTIFIED BY 'poor-pw-1'")
    yield MariaDbSource(MySqlEndpoint(server.host, server.port, "poor", "poor-pw-1"))
    server.execute("DROP USER poor")


# ---- what a connector would have stored, and what comes of it ----------------------------------


def pipeline_of(tables: tuple[str, ...]) -> Pipeline:
    return Pipeline(
        name="shop",
        source=MariaDbSettings("mariadb", "maria", tables),
        connector=DebeziumSettings("debezium", "connect", "shop"),
        transport=KafkaSettings("kafka", "kafka"),
        sink=IcebergSettings("iceberg", "shop", "lake"),
    )


def observe(source: MariaDbSource, offset: dict[str, Any], tables: tuple[str, ...] = ("shop.t",)) -> Observation:
    """A pipeline that is healthy but for what the real server says of this offset."""
    pipeline = pipeline_of(tables)
    try:
        facts: SourceFacts | Unknown = source.facts_for(tables, position_in(offset))
    except SourceError as error:
        facts = Unknown(str(error))
    address = {"database.hostname": source.endpoint.host, "database.port": str(source.endpoint.port)}
    connector = ConnectorFacts(
        "RUNNING",
        (TaskState(0, "RUNNING"),),
        {"topic.prefix": "shop", **address},
        stored(offset, pipeline),
        {"server": "shop"},
        1,
        address=f"{source.endpoint.host}:{source.endpoint.port}",
    )
    sink = SinkFacts({name: SinkTableFacts(True, 7, Stamp(3), 10) for name in tables})
    return Observation(
        pipeline, "2026-11-22T09:00:00+00:00", facts, connector, TransportFacts({}), sink, ControlFacts(3)
    )


def code(source: MariaDbSource, offset: dict[str, Any]) -> Diagnosis:
    return diagnose(observe(source, offset))


# ---- facts --------------------------------------------------------------------------------------


def test_facts_are_those_that_mariadb_has(source: MariaDbSource, server: MySqlServer, table: str) -> None:
    server.execute(f"INSERT INTO {table} (v) VALUES ('a')")
    facts = source.facts()
    ((state, position),) = server.execute("SELECT @@gtid_binlog_state, @@gtid_binlog_pos")
    assert facts.domains is not None
    assert sorted(str(facts.domains.logged).split(",")) == sorted(state.split(","))
    assert str(facts.domains.logged.position) == position
    assert facts.domains.begins is None  # no position was asked for
    assert (facts.server_id, facts.version) == (103, server.version)
    assert (facts.log_bin, facts.binlog_format, facts.row_image) == (True, "ROW", "FULL")
    assert facts.binlog_files[-1].name == facts.current.file


def test_what_mariadb_does_not_have_is_absent(source: MariaDbSource) -> None:
    facts = source.facts()
    assert facts.server_uuid == ""
    assert facts.gtid_mode is None


def test_server_uid_is_no_identity(servers: stack.Stack, server: MySqlServer) -> None:
    """It follows the port and stays the same over another data folder: nothing of the data is in it."""
    uid = "SELECT @@server_uid"
    first = servers.add_mysql(MySqlSettings(name="maria-a", server_id=105, series=mariadb_series()))
    before = first.execute(uid)
    end(first.child)
    second = servers.add_mysql(MySqlSettings(name="maria-b", server_id=106, series=mariadb_series()))
    assert second.execute(uid) != before
    end(second.child)
    # the data of the second under the address of the first
    moved = servers.set_mysql(replace(second, port=first.port)).restart_mysql("maria-b")
    assert moved.execute(uid) == before
    end(moved.child)


def test_facts_change_nothing(source: MariaDbSource, server: MySqlServer) -> None:
    before, held = source.facts(), server.execute("SELECT @@gtid_binlog_state, @@gtid_slave_pos")
    source.facts_for(("shop.t",), end_of(before))
    assert source.facts().binlog_files == before.binlog_files
    assert server.execute("SELECT @@gtid_binlog_state, @@gtid_slave_pos") == held


def test_purged_and_the_place_at_which_a_file_begins(source: MariaDbSource, server: MySqlServer, table: str) -> None:
    purge(server)
    rotate(server, table, 2)
    facts = source.facts()
    file = facts.binlog_files[1].name
    facts = source.facts_for((), MariaDbPosition(file, 4))
    assert facts.domains is not None
    assert facts.domains.begins is not None
    assert (facts.domains.begins - facts.domains.purged).count == 1
    assert (facts.domains.logged.position - facts.domains.begins).count == 1
    nowhere = source.facts_for((), MariaDbPosition("mysql-bin.999999", 4)).domains
    assert nowhere == replace(facts.domains, begins=None)


def test_each_make_says_which_kind_the_other_is(server: MySqlServer, source: MariaDbSource) -> None:
    as_mysql = MySqlSource(source.endpoint)
    for call in (as_mysql.facts, lambda: as_mysql.facts_for((), None)):
        with pytest.raises(SourceSettingError, match=r"the server is MariaDB 10\.11.*says that it is MySQL") as caught:
            call()
        assert caught.value.todo == "Write `kind: mariadb` below `source:` in pipelines.yaml."


# ---- diagnosis ----------------------------------------------------------------------------------


def test_a_pipeline_that_has_read_everything_is_healthy(source: MariaDbSource, server: MySqlServer, table: str) -> None:
    server.execute(f"INSERT INTO {table} (v) VALUES ('x')")
    assert code(source, here(server)).code == "HEALTHY"
    assert code(source, here(server, gtids=False)).code == "GTID_MISSING_IN_OFFSET"


@pytest.mark.parametrize(("gtids", "wanted"), [(True, "GTID_PURGED"), (False, "BINLOG_PURGED")])
def test_purged_past_the_offset(
    source: MariaDbSource, server: MySqlServer, table: str, gtids: bool, wanted: str
) -> None:
    offset = here(server, gtids=gtids)
    rotate(server, table, 2)
    assert code(source, offset).code == ("HEALTHY" if gtids else "GTID_MISSING_IN_OFFSET")
    purge(server)
    found = code(source, offset)
    assert found.code == wanted
    plan = make_plan(found, observe(source, offset).pipeline.policy, observe(source, offset))
    assert (plan.refused, plan.strategy) == (False, "full_snapshot")


def test_files_that_were_read_to_the_end_may_be_purged(source: MariaDbSource, server: MySqlServer, table: str) -> None:
    """By GTID a connector that has read all of a purged file goes on in the next; by name it cannot."""
    server.execute(f"INSERT INTO {table} (v) VALUES ('x')")
    offset = here(server)
    purge(server)
    assert code(source, offset).code == "HEALTHY"
    assert code(source, {key: value for key, value in offset.items() if key != "gtids"}).code == "BINLOG_PURGED"


def test_a_domain_that_was_purged_before_it_was_read(source: MariaDbSource, server: MySqlServer, table: str) -> None:
    offset = here(server)
    connection = server.connect()
    with connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION gtid_domain_id = 42")
        cursor.execute(f"INSERT INTO {table} (v) VALUES ('other domain')")
    assert code(source, offset).code == "HEALTHY"
    purge(server)
    found = code(source, offset)
    assert found.code == "GTID_PURGED"
    assert found.evidence["gtids missing"].startswith("42:1-1 ")


@pytest.mark.parametrize("gtids", [True, False])
def test_a_log_that_was_reset(own: MySqlServer, gtids: bool) -> None:
    rotate(own, "shop.t", 3)
    offset = here(own, gtids=gtids)
    own.execute("RESET MASTER", "INSERT INTO shop.t (v) VALUES ('new')")
    assert code(MariaDbSource(endpoint(own)), offset).code == "POSITION_AHEAD"


def cut(servers: stack.Stack, server: MySqlServer, file: str, size: int) -> MySqlServer:
    end(server.child)
    os.truncate(server.datadir / file, size)
    return servers.restart_mysql(server.settings.name)


def closed(server: MySqlServer) -> tuple[dict[str, Any], str, int]:
    """An offset with changes before and behind it in one file, which is then closed; the file, and its first change."""
    server.execute("FLUSH BINARY LOGS", "INSERT INTO shop.t (v) VALUES ('read')")
    offset = here(server)
    rotate(server, "shop.t")
    events = server.execute(f"SHOW BINLOG EVENTS IN '{offset['file']}'")
    return offset, str(offset["file"]), next(int(row[1]) for row in events if row[2] == "Gtid")


@pytest.mark.parametrize("gtids", [True, False])
def test_a_file_that_ends_before_the_position(servers: stack.Stack, own: MySqlServer, gtids: bool) -> None:
    offset, file, first = closed(own)
    offset = offset if gtids else {key: value for key, value in offset.items() if key != "gtids"}
    again = cut(servers, own, file, first)
    assert code(MariaDbSource(endpoint(again)), offset).code == "POSITION_PAST_END"


@pytest.mark.parametrize("gtids", [True, False])
def test_an_event_that_is_cut_off_and_a_position_inside_one(
    servers: stack.Stack, own: MySqlServer, gtids: bool
) -> None:
    offset, file, _ = closed(own)
    offset = offset if gtids else {key: value for key, value in offset.items() if key != "gtids"}
    source = MariaDbSource(endpoint(own))
    assert code(source, offset).code == ("HEALTHY" if gtids else "GTID_MISSING_IN_OFFSET")
    assert code(source, {**offset, "pos": offset["pos"] + 3}).code == "POSITION_MID_EVENT"
    again = cut(servers, own, file, offset["pos"] + 21)
    assert code(MariaDbSource(endpoint(again)), offset).code == "POSITION_MID_EVENT"


def test_every_place_of_a_file_is_told_apart(own: MySqlServer) -> None:
    _, file, _ = closed(own)
    size = {str(row[0]): int(row[1]) for row in own.execute("SHOW BINARY LOGS")}[file]
    boundaries = {int(row[1]) for row in own.execute(f"SHOW BINLOG EVENTS IN '{file}'")} | {size}
    with MariaDbSource(endpoint(own)).session() as session:
        files = list_binlog_files(session)
        looks = {pos: inspect_position(session, BinlogPosition(file, pos), files) for pos in range(4, size + 1)}
    for pos, seen in looks.items():
        assert seen is not None
        assert seen.place is (EventBoundary.BOUNDARY if pos in boundaries else EventBoundary.INSIDE), pos


def test_another_servers_file_of_the_same_name_is_not_judged(
    source: MariaDbSource, server: MySqlServer, table: str
) -> None:
    """After a failover the stored file and position are another server's; the GTIDs go on."""
    rotate(server, table)
    ((held,),) = server.execute("SELECT @@gtid_binlog_pos")
    oldest = server.execute("SHOW BINARY LOGS")[0][0]
    elsewhere = {"file": oldest, "pos": 10**9, "gtids": held, "ts_sec": 1, "server_id": 999}
    assert code(source, elsewhere).code == "HEALTHY"


def test_transactions_that_the_server_never_had(source: MariaDbSource, server: MySqlServer) -> None:
    offset = here(server)
    last = max((MariaDbGtid.parse(text) for text in offset["gtids"].split(",")), key=lambda gtid: gtid.number)
    for strange in (replace(last, number=last.number + 50), replace(last, server=999)):
        found = code(source, {**offset, "gtids": str(strange)})
        assert found.code == "GTID_NOT_CONTAINED"
        assert found.evidence["gtids unseen"].startswith(f"{strange} ")


def test_gtids_of_the_other_kind(source: MariaDbSource, server: MySqlServer) -> None:
    offset = {**here(server), "gtids": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"}
    found = code(source, offset)
    assert found.code == "GTID_MODE_MISMATCH"
    assert "MariaDB's, the offset's MySQL's" in found.evidence["gtids"]


def test_half_rows(source: MariaDbSource, server: MySqlServer) -> None:
    offset = here(server)
    server.execute("SET GLOBAL binlog_row_image = 'MINIMAL'")
    try:
        found = code(source, offset)
    finally:
        server.execute("SET GLOBAL binlog_row_image = 'FULL'")
    assert found.code == "SOURCE_MISCONFIGURED"
    assert found.evidence["binlog_row_image"].startswith("MINIMAL, must be FULL")


def test_without_a_log(servers: stack.Stack) -> None:
    settings = MySqlSettings(name="maria-nolog", server_id=108, series=mariadb_series(), extra=("--skip-log-bin",))
    made = servers.add_mysql(settings)
    found = code(MariaDbSource(endpoint(made)), {"file": "mysql-bin.000001", "pos": 4, "gtids": "0-1-1", "ts_sec": 1})
    end(made.child)
    assert found.code == "SOURCE_MISCONFIGURED"
    assert found.evidence["log_bin"].startswith("OFF")


def test_a_server_that_does_not_answer_is_unknown(server: MySqlServer) -> None:
    away = MariaDbSource(MySqlEndpoint("127.0.0.1", 1, "cdc", "pw"))
    assert code(away, here(server)).code == "UNKNOWN"


def test_cascades_are_not_in_the_log(source: MariaDbSource, server: MySqlServer, databases: Callable[..., str]) -> None:
    name = databases(server)
    server.execute(
        f"CREATE TABLE {name}.p (id INT PRIMARY KEY)",
        f"CREATE TABLE {name}.c (id INT, FOREIGN KEY (id) REFERENCES {name}.p (id) ON DELETE CASCADE)",
        f"INSERT INTO {name}.p VALUES (1)",
        f"INSERT INTO {name}.c VALUES (1)",
        "FLUSH BINARY LOGS",
        f"DELETE FROM {name}.p",
    )
    file = server.execute("SHOW MASTER STATUS")[0][0]
    rows = [row[2] for row in server.execute(f"SHOW BINLOG EVENTS IN '{file}'") if "rows_v1" in row[2].lower()]
    assert rows == ["Delete_rows_v1"]  # the parent's; the child's row went without one
    assert server.execute(f"SELECT COUNT(*) FROM {name}.c") == [(0,)]
    assert source.cascade_targets((f"{name}.c",)) == {f"{name}.c"}


# ---- retention, definitions, rights -------------------------------------------------------------


def test_retention_by_either_name(source: MariaDbSource, server: MySqlServer) -> None:
    at = end_of(source.facts())
    for statement, seconds in (("binlog_expire_logs_seconds = 7200", 7200), ("expire_logs_days = 2", 172800)):
        server.execute(f"SET GLOBAL {statement}")
        kept = source.facts_for((), at).retention
        assert kept is not None
        assert kept.expire_s == seconds
    server.execute("SET GLOBAL binlog_expire_logs_seconds = 0")


def test_a_files_beginning_is_read_from_its_header(source: MariaDbSource, server: MySqlServer, table: str) -> None:
    begun = time.time()
    rotate(server, table)
    found = began(source.endpoint, str(server.execute("SHOW BINARY LOGS")[-1][0]))
    assert found is not None
    assert abs(found - begun) < 60
    forecast, kept = source.forecast(end_of(source.facts()))
    assert kept.expire_s == 0
    assert forecast is not None


def test_definitions_are_read(source: MariaDbSource, server: MySqlServer, databases: Callable[..., str]) -> None:
    name = databases(server)
    server.execute(f"CREATE TABLE {name}.t (id BIGINT UNSIGNED PRIMARY KEY, e ENUM('a','b'), g INT AS (id + 1) STORED)")
    with source.connect() as connection:
        made = read_table_defs(connection, [f"{name}.t"])[f"{name}.t"]
    assert made.key == ("id",)
    assert [words_of(column).data_type for column in made.columns] == ["bigint", "enum", "int"]
    assert [column.generated for column in made.columns] == [False, False, True]
    assert words_of(made.columns[1]).labels == ("a", "b")


def test_rows_are_counted_within_a_time(source: MariaDbSource, server: MySqlServer, table: str) -> None:
    server.execute(f"INSERT INTO {table} (v) SELECT 'x' FROM {table.partition('.')[0]}.seq_1_to_200000")
    assert source.count_rows(table, 30) == 200000
    assert source.count_rows(table, 0.0001) is None


def test_grants_of_the_documented_user_suffice(server: MySqlServer, source: MariaDbSource, poor: MariaDbSource) -> None:
    assert source.grants().missing(["shop.orders"], gtid=False, hold=False) == ()
    missing = {need.privilege: need.required for need in poor.grants().missing(["shop.orders"], gtid=False)}
    assert missing == {"SELECT": True, "BINLOG MONITOR": True, "REPLICATION SLAVE": False, "PROCESS": False}
    with pytest.raises(MissingPrivilegeError) as caught:
        poor.facts()
    assert caught.value.privilege == "BINLOG MONITOR"


def test_the_least_privileges_see_all_that_a_diagnosis_needs(server: MySqlServer, table: str) -> None:
    server.execute(
        "CREATE OR REPLACE USER least IDENTIFIED BY 'pw'",
        "GRANT BINLOG MONITOR ON *.* TO least",
        f"GRANT SELECT ON {table} TO least",
    )
    source = MariaDbSource(MySqlEndpoint(server.host, server.port, "least", "pw"))
    facts = source.facts_for((table,), end_of(source.facts()))
    assert facts.missing_privileges == ()
    assert facts.at_offset is not None
    assert facts.domains is not None
    with pytest.raises(pymysql.err.OperationalError, match="denied"), source.connect() as connection:
        connection.cursor().execute("FLUSH BINARY LOGS")
    server.execute("DROP USER least")


@pytest.mark.parametrize("missing", ["", *CDC_PRIVILEGES])
def test_doctor_names_each_privilege_that_is_missing(server: MySqlServer, table: str, missing: str) -> None:
    rest = ", ".join(name for name in CDC_PRIVILEGES if name != missing)
    server.execute("CREATE OR REPLACE USER looked_at IDENTIFIED BY 'pw'", f"GRANT {rest} ON *.* TO looked_at")
    source: Any = MariaDbSource(MySqlEndpoint(server.host, server.port, "looked_at", "pw"))
    others = (create_autospec(kind, instance=True) for kind in (DebeziumConnector, KafkaTransport, Lake, Control))
    run = Run(pipeline_of((table,)), Parts(source, *others), "r1", "/reports")
    found = {check.name: check for check in doctor.guarded(doctor.check_source, run)}
    said = found.get("privileges", found.get("source"))
    assert said is not None
    assert (said.state, said.found) == {
        "": ("ok", "all that a recovery needs"),
        "SELECT": ("bad", f"missing SELECT on {table}"),
        "REPLICATION SLAVE": ("warn", "missing REPLICATION SLAVE on *.*"),
        "PROCESS": ("warn", "missing PROCESS on *.*"),
        "BINLOG MONITOR": ("bad", said.found),  # nothing can be looked at without it: one line, which names it
    }[missing]
    assert "BINLOG MONITOR" in said.found or missing != "BINLOG MONITOR"
    if missing != "BINLOG MONITOR":
        assert found["source"].found == f"MariaDB {server.version}, server_id 103"
    server.execute("DROP USER looked_at")
