"""What the connectors declare: their parts, the forms of their connections, the questions of init, and their settings."""

from __future__ import annotations

import json
from inspect import signature
from typing import Any

import pytest

from airflow_cdc.connectors.canal import KIND as CANAL
from airflow_cdc.connectors.canal import kind as canal
from airflow_cdc.connectors.canal.endpoint import CanalEndpoint
from airflow_cdc.connectors.debezium import KIND as DEBEZIUM
from airflow_cdc.connectors.debezium import kind as debezium
from airflow_cdc.connectors.debezium_engine import KIND as ENGINE
from airflow_cdc.connectors.debezium_engine import kind as engine
from airflow_cdc.connectors.debezium_engine.endpoint import EngineEndpoint
from airflow_cdc.connectors.flink import KIND as FLINK
from airflow_cdc.connectors.flink import kind as flink
from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.core.kind import ConnectorKind
from airflow_cdc.core.settings import connections
from airflow_cdc.core.setup import HTTPS
from tests.unit.declared import asks, asks_in_airflow, offers, reads, refuses

# the modules that are declared: airflow_cdc.connectors.canal.kind, airflow_cdc.connectors.debezium.kind,
# airflow_cdc.connectors.debezium_engine.kind, airflow_cdc.connectors.flink.kind; and the clients that they name:
# airflow_cdc.connectors.debezium_engine.connector, airflow_cdc.connectors.canal.connector, airflow_cdc.connectors.flink.connector,
# airflow_cdc.connectors.debezium.connector, airflow_cdc.connectors.kafka_connect.client
PARTS = ("client", "rules", "endpoint", "setup", "hook", "form", "config_rules", "voice")
TEXT = ["string", "null"]
COMMANDS = {"start": "systemctl start it", "stop": "systemctl stop it", "status": "systemctl is-active it"}


@pytest.mark.parametrize(
    ("kind", "name", "title"),
    [
        (DEBEZIUM, "debezium", "Debezium"),
        (ENGINE, "debezium_engine", "Debezium's engine"),
        (CANAL, "canal", "Canal"),
        (FLINK, "flink", "Flink CDC"),
    ],
)
def test_a_connector_is_called_by_its_makers_name_and_all_its_parts_load(
    kind: ConnectorKind, name: str, title: str
) -> None:
    assert (kind.name, kind.title) == (name, title)
    offers(kind, (*PARTS, "over_topics") if kind is DEBEZIUM else PARTS)


def test_what_each_connector_reads_and_where_it_writes() -> None:
    """Debezium has connectors for all three; Canal and Flink CDC's source of this part read MySQL's binlog. Flink writes the sink itself,
    so there are no events to decode. Corrections are written as Debezium's events where the sink's keys are known (INV 47).
    """
    read = {
        kind.name: {source: (how.decoder is not None, how.writes) for source, how in kind.reads.items()}
        for kind in (DEBEZIUM, ENGINE, CANAL, FLINK)
    }
    servers = {"mysql": (True, True), "mariadb": (True, False), "postgres": (True, True)}
    assert read == {
        "debezium": servers,
        "debezium_engine": servers,
        "canal": {"mysql": (True, False)},
        "flink": {"mysql": (False, False)},
    }
    for kind in (DEBEZIUM, ENGINE, CANAL, FLINK):
        for how in kind.reads.values():
            assert how.codec is not None
            assert how.codec.load() is not None
            assert how.decoder is None or how.decoder.load() is not None
    through = {kind.name: kind.through for kind in (DEBEZIUM, ENGINE, CANAL, FLINK)}
    assert through == {
        "debezium": ("kafka",),
        "debezium_engine": ("kafka",),
        "canal": ("kafka", "rabbitmq"),
        "flink": ("direct",),
    }


@pytest.mark.parametrize("kind", [DEBEZIUM, ENGINE, CANAL, FLINK], ids=lambda kind: kind.name)
def test_every_connector_is_waited_for_as_long_as_the_port_says(kind: ConnectorKind) -> None:
    """Who does not say how long waits a minute for an end and two for a start, whatever the connector is."""
    client: Any = kind.client.load()
    for method, seconds in (("stop", 60.0), ("wait_running", 120.0)):
        assert signature(getattr(client, method)).parameters["timeout"].default == seconds


# ---- the forms in Airflow -----------------------------------------------------------------------------


def test_the_form_of_kafka_connect_asks_for_an_address_and_how_it_is_protected() -> None:
    """A whole URL may stand in the host, so the scheme is a field of the form; Connect listens on 8083."""
    https: Any = HTTPS
    of_https = {name: (field["schema"]["type"], field["schema"].get("default")) for name, field in https.items()}
    asks_in_airflow(
        DEBEZIUM,
        set(),
        {"schema": "Scheme", "host": "Host or URL"},
        {"host": "http://connect.example:8083", "schema": "http"},
        {**of_https, "token_url": (TEXT, None), "scope": (TEXT, None)},
    )


def test_the_form_of_flink_asks_for_the_jobmanager_and_the_gateway() -> None:
    asks_in_airflow(
        FLINK,
        set(),
        {"host": "JobManager", "schema": "http or https", "login": "User", "port": "REST port"},
        {"host": "jobmanager.example", "port": "8081", "schema": "http"},
        {"gateway": (TEXT, None), "verify": (TEXT, None)},
    )


def test_the_form_of_canal_asks_for_servers_and_hides_the_port_that_each_of_them_has() -> None:
    asks_in_airflow(
        CANAL,
        {"schema", "port", "extra"},
        {"host": "ZooKeeper's servers, or the machine that Canal runs on", "login": "ZooKeeper user"},
        {"host": "zk1.example:2181,zk2.example:2181"},
        {},
    )


def test_the_form_of_an_engine_asks_for_its_machine_alone() -> None:
    asks_in_airflow(
        ENGINE,
        {"schema", "port", "login", "password", "extra"},
        {"host": "The machine that it runs on"},
        {"host": "debezium1.example"},
        {},
    )


# ---- the questions of init ----------------------------------------------------------------------------


def test_init_asks_for_connects_address_and_the_connectors_name() -> None:
    asks(debezium.SETUP, {"connect": ("http://localhost:8083", True), "connector": ("shop", True)})
    answers = {"connect": "http://kc:8083", "connector": "orders"}
    assert _written(debezium.SETUP, answers) == {"conn_id": "shop_connect", "name": "orders"}
    made = debezium.SETUP.connections("shop", answers)
    assert [(one.conn_id, one.conn_type, one.host) for one in made] == [
        ("shop_connect", "kafka_connect", "http://kc:8083")
    ]


def test_init_asks_for_flinks_job_and_what_starts_it() -> None:
    asks(
        flink.SETUP,
        {
            "flink_job": ("", True),
            "flink_jobmanager": ("localhost:8081", True),
            "flink_gateway": ("", False),
            "flink_plan": ("", False),
            "flink_savepoints": ("", False),
        },
        by_name="flink_job",
    )
    little = {
        "flink_job": "orders",
        "flink_jobmanager": "jm:8081",
        "flink_gateway": "",
        "flink_plan": "",
        "flink_savepoints": "",
    }
    much = {**little, "flink_gateway": "http://gw:8083", "flink_plan": "/p.json", "flink_savepoints": "s3://s"}
    assert _written(flink.SETUP, little) == {"conn_id": "shop_flink", "name": "orders"}
    assert _written(flink.SETUP, much) == {
        "conn_id": "shop_flink",
        "name": "orders",
        "plan": "/p.json",
        "savepoints": "s3://s",
    }
    (bare,) = flink.SETUP.connections("shop", {**little, "flink_jobmanager": "jm"})
    (full,) = flink.SETUP.connections("shop", much)
    assert (bare.conn_id, bare.conn_type, bare.host, bare.port, bare.extra) == ("shop_flink", "flink", "jm", None, "")
    assert (full.host, full.port, json.loads(full.extra)) == ("jm", 8081, {"gateway": "http://gw:8083"})


def test_init_asks_for_canals_destination_its_cursors_and_its_commands() -> None:
    asks(
        canal.SETUP,
        {
            "canal_destination": ("", True),
            "canal_conf": ("/opt/canal/conf", True),
            "canal_zookeeper": ("", False),
            "canal_log": ("", False),
            "canal_start": ("systemctl start canal", True),
            "canal_stop": ("systemctl stop canal", True),
            "canal_status": ("systemctl is-active canal", True),
        },
        by_name="canal_destination",
    )
    little = {f"canal_{key}": value for key, value in {**COMMANDS, "destination": "orders", "conf": "/conf"}.items()}
    little |= {"canal_zookeeper": "", "canal_log": ""}
    much = {**little, "canal_zookeeper": "zk1:2181", "canal_log": "/log"}
    own = {"conn_id": "shop_canal", "name": "orders", "conf": "/conf", **COMMANDS}
    assert _written(canal.SETUP, little) == {**own, "cursor": "file"}
    assert _written(canal.SETUP, much) == {**own, "cursor": "zookeeper", "log": "/log"}
    for answers, host in ((little, "localhost"), (much, "zk1:2181")):
        (made,) = canal.SETUP.connections("shop", answers)
        assert (made.conn_id, made.conn_type, made.host) == ("shop_canal", "canal", host)


def test_init_asks_for_an_engines_file_and_its_commands() -> None:
    asks(
        engine.SETUP,
        {
            "engine_config": ("/opt/debezium/conf/application.properties", True),
            "engine_log": ("", False),
            "engine_start": ("systemctl start debezium", True),
            "engine_stop": ("systemctl stop debezium", True),
            "engine_status": ("systemctl is-active debezium", True),
        },
    )
    little = {f"engine_{key}": value for key, value in {**COMMANDS, "config": "/conf", "log": ""}.items()}
    own = {"conn_id": "shop_engine", "name": "shop", "config": "/conf", **COMMANDS}
    assert _written(engine.SETUP, little) == own
    assert _written(engine.SETUP, {**little, "engine_log": "/log"}) == {**own, "log": "/log"}
    (made,) = engine.SETUP.connections("shop", little)
    assert (made.conn_id, made.conn_type, made.host) == ("shop_engine", "debezium_engine", "localhost")


def _written(setup: Any, answers: dict[str, str]) -> dict[str, str]:
    return {one.name: one.value for one in setup.keys("shop", answers)}


# ---- the settings -------------------------------------------------------------------------------------

OWN = {"kind": "k", "conn_id": "c", "name": "n"}


def test_a_connector_of_connect_needs_its_connection_and_its_name_alone() -> None:
    reads(debezium.DebeziumSettings, OWN, {"offsets_topic": "", "status_topic": "", "strimzi_namespace": ""})


def test_a_job_of_flink_needs_no_plan_to_be_diagnosed() -> None:
    reads(flink.FlinkSettings, OWN, {"plan": "", "savepoints": "", "session": (), "reads": ""})
    more = {"plan": "/p", "savepoints": "s3://s", "session": ["a.b=1"], "reads": "shop.orders"}
    spec = reads(flink.FlinkSettings, {**OWN, **more}, {"session": ("a.b=1",)}, of=OWN)
    for wrong in ("=1", "a.b"):
        refuses(flink.FlinkSettings, {**OWN, **more, "session": [wrong]}, "session")
    at = spec.at(FlinkEndpoint("http://jm:8081"))
    assert (at.plan, at.savepoints, at.session, at.reads) == ("/p", "s3://s", ("a.b=1",), "shop.orders")


def test_a_canal_needs_its_folder_and_its_commands() -> None:
    needed = {**OWN, "conf": "/conf", **COMMANDS}
    left_out = {"cursor": "file", "environment": (), "log": "", "time_zone": ""}
    spec = reads(canal.CanalSettings, needed, left_out)
    refuses(canal.CanalSettings, {**needed, "cursor": "redis"}, "cursor")
    for no_zone in ("Mars/Olympus", "../etc", "x" * 300):
        refuses(canal.CanalSettings, {**needed, "time_zone": no_zone}, "time_zone")
    for command in COMMANDS:
        refuses(canal.CanalSettings, {**needed, command: "say 'it"}, command)
    at = spec.at(CanalEndpoint("zk1:2181"))
    assert (at.destination, at.cursor, at.conf, at.log, at.time_zone) == ("n", "file", "/conf", "", "")
    assert (at.start, at.stop, at.status) == tuple(tuple(text.split()) for text in COMMANDS.values())


def test_an_engine_needs_its_file_and_its_commands() -> None:
    needed = {**OWN, "config": "/conf", **COMMANDS}
    spec = reads(engine.EngineSettings, needed, {"offsets_file": "", "environment": (), "log": ""})
    for command in COMMANDS:
        refuses(engine.EngineSettings, {**needed, command: "say 'it"}, command)
    at = spec.at(EngineEndpoint("m"))
    assert (at.config, at.offsets_file, at.log, at.environment) == ("/conf", "", "", ())
    assert (at.start, at.stop, at.status) == tuple(tuple(text.split()) for text in COMMANDS.values())


@pytest.mark.parametrize(
    ("cls", "more"),
    [
        (debezium.DebeziumSettings, {}),
        (flink.FlinkSettings, {}),
        (canal.CanalSettings, {"conf": "/conf", **COMMANDS}),
        (engine.EngineSettings, {"config": "/conf", **COMMANDS}),
    ],
)
def test_the_connection_of_a_connector_is_found_by_its_id(cls: type[Any], more: dict[str, str]) -> None:
    """A connection that does not exist is said before a run begins, so every key that names one is known as one."""
    assert connections(cls(kind="k", conn_id="c", name="n", **more)) == {"conn_id": "c"}
