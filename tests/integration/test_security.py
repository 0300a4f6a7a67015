"""Real servers with TLS and logins, users with the least privileges, and names that must be quoted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.errors import CdcError, SourceError, TransportError
from airflow_cdc.core.pipeline import sink_name
from airflow_cdc.core.report import Verdict
from airflow_cdc.flows import doctor
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.schema import read_table_defs
from airflow_cdc.spark_apps.adapters.kafka import read_topics
from airflow_cdc.spark_apps.adapters.mysql_jdbc import jdbc_options, rows_frame
from airflow_cdc.spark_apps.apply.batch import apply_batch
from airflow_cdc.spark_apps.apply.context import ApplyTarget
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.wire import admin, producer
from stack import Stack, fetch, kafka
from stack.mysql import CDC_PRIVILEGES, MySqlServer, MySqlSettings
from stack.process import end
from tests.apply_support import Bench
from tests.integration.certificates import Certificates
from tests.integration.rig import Rig
from tests.integration.verify_support import make_scene, settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

PASSWORD = "Pa55word-of-kafka"


# --- MySQL over TLS --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tls_mysql(servers: Stack, certificates: Certificates) -> MySqlServer:
    """A server that takes no connection without TLS, but from its own root user's first look."""
    c = certificates
    extra = (f"--ssl-ca={c.authority}", f"--ssl-cert={c.certificate}", f"--ssl-key={c.key}")
    server = servers.mysql.get("mysql-tls") or servers.add_mysql(
        MySqlSettings(name="mysql-tls", server_id=103, extra=extra)
    )
    server.execute("CREATE DATABASE IF NOT EXISTS tls", "CREATE TABLE IF NOT EXISTS tls.t (id INT PRIMARY KEY)")
    server.execute("REPLACE INTO tls.t VALUES (1), (2)", "SET GLOBAL require_secure_transport = ON")
    return server


def over(server: MySqlServer, ssl: dict[str, Any] | None) -> MySqlSource:
    return MySqlSource(MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password, ssl=ssl))


@pytest.mark.parametrize("mode", ["required", "verify_ca", "verify_identity", None, "without an authority"])
def test_mysql_is_read_over_tls_by_both_clients(
    mode: str | None, tls_mysql: MySqlServer, certificates: Certificates, spark: SparkSession
) -> None:
    """Without an authority by TLS, too, as the server offers it: no key for the password is taken on trust."""
    ssl = {"ca": str(certificates.authority), **({"mode": mode} if mode else {})}
    source = over(tls_mysql, None if mode == "without an authority" else ssl)
    with source.session() as session:
        assert session.row("SHOW SESSION STATUS LIKE 'Ssl_cipher'", doing="look")["Value"]
    with closing(source.connect()) as connection:
        table = read_table_defs(connection, ["tls.t"])["tls.t"]
    # the server forgets who logged in, so that Spark's driver has to prove its password again
    tls_mysql.execute("FLUSH PRIVILEGES")
    options = jdbc_options(source, source.init_statement(source.position()), 100)
    assert sorted(row["id"] for row in rows_frame(spark, options, table).collect()) == [1, 2]


@pytest.mark.parametrize("ssl", [{"mode": "disabled"}, {"ca": "stranger"}])
def test_mysql_without_tls_or_with_another_authority_is_one_clear_error(
    ssl: dict[str, str], tls_mysql: MySqlServer, certificates: Certificates
) -> None:
    given = {"ca": str(certificates.stranger)} if "ca" in ssl else ssl
    with pytest.raises(SourceError) as caught:
        over(tls_mysql, given).facts()
    assert caught.value.todo
    assert tls_mysql.cdc.password not in str(caught.value)


# --- Kafka over SASL_SSL ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sasl_kafka(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[str]:
    """A broker whose only listener is SASL_SSL with PLAIN."""
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="cdc" password="{PASSWORD}" user_cdc="{PASSWORD}";'
    more = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificates.certificate.read_text(),
        "ssl.keystore.key": certificates.key.read_text(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": certificates.authority.read_text(),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
    }
    fetch.fetch_all(["kafka"])
    folder = tmp_path_factory.mktemp("sasl")
    broker = kafka.start_kafka(folder, folder, protocol="SASL_SSL", more=more)
    try:
        yield kafka.wait_ready(broker).bootstrap
    finally:
        end(broker.child)


def secured(bootstrap: str, certificates: Certificates, **changes: str) -> KafkaEndpoint:
    security = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "cdc",
        "sasl.password": PASSWORD,
        "ssl.cafile": str(certificates.authority),
    }
    return KafkaEndpoint(bootstrap, {**security, **{k.replace("__", "."): v for k, v in changes.items()}}, timeout=20)


def test_kafka_is_read_over_sasl_ssl_by_both_clients(
    sasl_kafka: str, certificates: Certificates, spark: SparkSession
) -> None:
    endpoint = secured(sasl_kafka, certificates)
    with admin(endpoint) as client:
        client.create_topics({"t": {"num_partitions": 1, "replication_factor": 1, "configs": {}}})
    with producer(endpoint) as client:
        client.send("t", key=b"k", value=b"v")
        client.flush(20)
    state = KafkaTransport(endpoint).topic_states(["t"])["t"]
    assert state.partitions == {0: (0, 1)}
    assert bytes(read_topics(spark, endpoint, {"t": {0: (0, 1)}}).collect()[0]["value"]) == b"v"
    assert PASSWORD not in repr(endpoint)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sasl__password": "wrong-" + PASSWORD}, "login"),
        ({"ssl__cafile": "stranger"}, "ssl files"),
        ({"security__protocol": "PLAINTEXT", "sasl__username": "", "sasl__password": ""}, "Check"),
    ],
)
def test_kafka_refusals_are_one_clear_error_without_the_password(
    changes: dict[str, str], said: str, sasl_kafka: str, certificates: Certificates
) -> None:
    given = {key: str(certificates.stranger) if value == "stranger" else value for key, value in changes.items()}
    with pytest.raises(TransportError) as caught:
        KafkaTransport(replace(secured(sasl_kafka, certificates, **given), timeout=20)).topic_states(["t"])
    assert said in caught.value.todo
    assert PASSWORD not in json.dumps(caught.value.to_json())


# --- least privileges ------------------------------------------------------------------------------------------------

# privilege taken away → what doctor names. SHOW DATABASES is Debezium's alone.
NAMED = [name for name in CDC_PRIVILEGES if name != "SHOW DATABASES"]


@pytest.fixture
def limited(rig: Rig) -> Iterator[Callable[[str], MySqlSource]]:
    """`limited(privilege)`: the source as a user who has all privileges of the documentation but this one."""
    user = f"u_{rig.schema[-8:]}"
    rig.server.execute(f"CREATE USER {user} IDENTIFIED WITH {rig.server.auth_plugin} BY 'pw'")

    def make(privilege: str) -> MySqlSource:
        rest = ", ".join(name for name in CDC_PRIVILEGES if name != privilege)
        rig.server.execute(f"REVOKE ALL, GRANT OPTION FROM {user}", f"GRANT {rest} ON *.* TO {user}")
        return MySqlSource(MySqlEndpoint(rig.server.host, rig.server.port, user, "pw"))

    yield make
    rig.server.execute(f"DROP USER {user}")


def test_doctor_names_each_privilege_that_is_missing(
    rig: Rig, limited: Callable[[str], MySqlSource], tmp_path: Path
) -> None:
    rig.run("CREATE TABLE keyed (id INT PRIMARY KEY)", "CREATE TABLE bare (n INT)")
    run = rig.recovery_run(["keyed", "bare"], tmp_path)
    for privilege in NAMED:
        made = replace(run, clients=replace(run.clients, source=limited(privilege)))
        found = [check for check in doctor.guarded(doctor.check_source, made) if check.state != "ok"]
        if privilege in {"RELOAD", "REPLICATION SLAVE"}:  # needed without GTID only
            assert found == []
        elif privilege == "SELECT":
            assert found, privilege
        elif privilege == "REPLICATION CLIENT":  # nothing can be looked at without it: one line, which names it
            (check,) = found
            assert f"lacks the privilege {privilege}" in check.found
            assert check.todo
        else:
            assert [check.found.split(" on ")[0] for check in found] == [f"missing {privilege}"]
            assert all(check.todo for check in found)
    complete = replace(run, clients=replace(run.clients, source=limited("")))
    assert all(check.state == "ok" for check in doctor.guarded(doctor.check_source, complete))


# --- names -----------------------------------------------------------------------------------------------------------

ODD = "odd `na'me\" x"
DDL = "CREATE TABLE `odd ``na'me\" x` (`k ey` INT PRIMARY KEY, `it's` VARCHAR(20), `a\"b` INT, `c``d` INT)"


def test_a_table_whose_names_need_quotes_is_read_compared_applied_and_published(rig: Rig) -> None:
    made = make_scene(rig, ODD, DDL, "INSERT INTO `odd ``na'me\" x` VALUES (1, 'o''ne', 1, 2), (2, 'two', 3, 4)")
    assert made.verdict()[0] is Verdict.MATCH
    rig.run("DELETE FROM `odd ``na'me\" x` WHERE `k ey` = 1", "INSERT INTO `odd ``na'me\" x` VALUES (3, 'x', 5, 6)")
    deleted: dict[str, Any] = {"k ey": 1, "it's": "o'ne", 'a"b': 1, "c`d": 2}
    made.events.delete(**deleted)
    made.events.create(**{"k ey": 3, "it's": "x", 'a"b': 5, "c`d": 6})
    context = Bench(rig.spark, rig.lake).context([made.events], made=settings_for(made.table))
    apply_batch(context, [ApplyTarget(made.table, made.stage)], made.events.upto)
    made.head = rig.lake.stage_head(made.stage)
    found, outcome = made.verdict()
    assert found is Verdict.MATCH, outcome.tally
    rig.lake.publish(made.stage, made.head, made.stage.base_head)
    name = sink_name(ODD)
    assert name.startswith("odd__na_me__x_")
    assert rig.spark.sql(f"SELECT `k ey`, `it's` FROM lake.{rig.schema}.`{name}` ORDER BY 1").collect() == [
        (2, "two"),
        (3, "x"),
    ]


def test_a_password_is_in_no_error_of_a_client(rig: Rig) -> None:
    secret = "Sup3r-s3cret"
    endpoint = MySqlEndpoint(rig.server.host, rig.server.port, rig.server.cdc.user, secret)
    with pytest.raises(CdcError) as caught:
        MySqlSource(endpoint).facts()
    assert secret not in f"{caught.value}{caught.value.to_json()}{endpoint!r}"
