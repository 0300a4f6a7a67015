"""The stack itself: real servers, their settings, their ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pymysql
import pytest
from pyspark.sql import SparkSession

import stack
from stack import connect, fetch, versions
from stack.airflow import AirflowServer, AirflowSettings
from stack.connect import ConnectWorker
from stack.guard import descendants
from stack.kafka import KafkaBroker
from stack.mysql import CDC_PRIVILEGES, MySqlServer, MySqlSettings, User
from stack.process import start_time, wait_until

# kafka-python reads its own resources in an old way when it is imported
pytestmark = pytest.mark.filterwarnings("ignore:.* is deprecated. Use files:DeprecationWarning")

ROOT = Path(__file__).parents[2]

DAG = """
from airflow.sdk import dag, task

@dag(schedule=None)
def hello():
    @task
    def first():
        return {"n": 1}

    @task
    def second(value):
        return value["n"] + 1

    @task
    def where():
        import os, shutil
        return {"spark_submit": shutil.which("spark-submit"), "java": os.environ["JAVA_HOME"]}

    second(first())
    where()

hello()
"""


def all_pids(running: stack.Stack) -> tuple[int, ...]:
    """Every process of a stack: guards, servers and what is below them."""
    guards = [child.pid for child in running.children]
    return tuple(pid for guard in guards for pid in (guard, *descendants(guard)))


def none_left(pids: tuple[int, ...]) -> bool:
    """True once none of the processes runs."""
    return wait_until(lambda: all(start_time(pid) is None for pid in pids) or None, timeout=30, what="all to be gone")


def value(server: MySqlServer, variable: str) -> str:
    """One global variable of a MySQL server."""
    return str(server.execute(f"SELECT @@GLOBAL.{variable}")[0][0])


@pytest.mark.parametrize(
    ("variable", "wanted"),
    [
        ("gtid_mode", "ON"),
        ("enforce_gtid_consistency", "ON"),
        ("log_bin", "1"),
        ("binlog_format", "ROW"),
        ("binlog_row_image", "FULL"),
        ("max_binlog_size", "4194304"),
        ("server_id", "101"),
        ("bind_address", "127.0.0.1"),
    ],
)
def test_mysql_runs_as_a_source_must(mysql: MySqlServer, variable: str, wanted: str) -> None:
    assert value(mysql, variable) == wanted


def test_mysql_is_the_version_it_should_be(mysql: MySqlServer) -> None:
    assert mysql.version.startswith(versions.MYSQL_TESTED[mysql.settings.series])


def test_mysql_without_gtids(mysql_nogtid: MySqlServer, mysql: MySqlServer) -> None:
    assert value(mysql_nogtid, "gtid_mode") == "OFF"
    assert value(mysql_nogtid, "server_uuid") != value(mysql, "server_uuid")


def test_the_cdc_user_has_what_it_needs_and_nothing_else(mysql: MySqlServer) -> None:
    with mysql.connect(mysql.cdc) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GRANTS")
        granted = [str(row[0]).removeprefix("GRANT ").partition(" ON ")[0] for row in cursor.fetchall()]
        with pytest.raises(pymysql.err.OperationalError, match="denied"):
            cursor.execute("CREATE DATABASE not_allowed")
    assert sorted(name for names in granted for name in names.replace(", ", ",").split(",")) == sorted(CDC_PRIVILEGES)


def test_a_wrong_password_is_refused(mysql: MySqlServer) -> None:
    with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
        mysql.connect(User("root", "wrong"))


def test_connect_carries_the_locked_debezium(connect_worker: ConnectWorker) -> None:
    plugins = {one["class"]: one["version"] for one in connect_worker.call("GET", "/connector-plugins")}
    assert plugins[connect.DEBEZIUM_CLASS] == versions.DEBEZIUM
    assert connect_worker.call("GET", "/")["version"] == versions.KAFKA


def test_a_change_travels_from_mysql_to_kafka(
    mysql: MySqlServer, connect_worker: ConnectWorker, kafka: str, databases: Callable[..., str]
) -> None:
    database = databases()
    mysql.execute(
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v VARCHAR(9))", f"INSERT {database}.t VALUES (1, 'a')"
    )
    config = {
        "connector.class": connect.DEBEZIUM_CLASS,
        "database.hostname": mysql.host,
        "database.port": str(mysql.port),
        "database.user": mysql.debezium.user,
        "database.password": mysql.debezium.password,
        "driver.allowPublicKeyRetrieval": "true",
        "database.server.id": "7301",
        "topic.prefix": database,
        "database.include.list": database,
        "schema.history.internal.kafka.bootstrap.servers": kafka,
        "schema.history.internal.kafka.topic": f"{database}_history",
    }
    connect_worker.call("PUT", f"/connectors/{database}/config", config)
    try:
        assert first_events(kafka, f"{database}.{database}.t", 1) == [("r", {"id": 1, "v": "a"})]
        mysql.execute(f"UPDATE {database}.t SET v = 'b'")
        assert first_events(kafka, f"{database}.{database}.t", 2)[1] == ("u", {"id": 1, "v": "b"})
    finally:
        connect_worker.call("DELETE", f"/connectors/{database}")


def first_events(bootstrap: str, topic: str, count: int) -> list[tuple[str, dict[str, object]]]:
    """Operation and new image of a topic's first events."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    found: list[tuple[str, dict[str, object]]] = []

    def probe() -> bool | None:
        for records in consumer.poll(timeout_ms=500).values():
            found.extend((event["op"], event["after"]) for event in (json.loads(one.value) for one in records))
        return len(found) >= count or None

    wait_until(probe, timeout=60, what=f"{count} events in {topic}")
    consumer.close()
    return found[:count]


def test_spark_reads_and_writes_the_lake_in_utc_with_ansi(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE lake.stack_test.t (id INT, at TIMESTAMP) USING iceberg")
    spark.sql("INSERT INTO lake.stack_test.t VALUES (1, TIMESTAMP '2026-01-01 00:00:00')")
    assert spark.sql("SELECT id, CAST(at AS STRING) FROM lake.stack_test.t").collect() == [(1, "2026-01-01 00:00:00")]
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


def test_every_server_says_that_it_is_well(
    servers: stack.Stack, mysql: MySqlServer, kafka_broker: KafkaBroker, connect_worker: ConnectWorker
) -> None:
    answers = {answer.name: answer for answer in servers.health()}
    assert all(answers[name].ok for name in ("mysql", "kafka", "connect"))


def test_passwords_are_readable_by_the_owner_only_and_absent_from_repr(
    servers: stack.Stack, mysql: MySqlServer
) -> None:
    state = servers.folder / "stack.json"
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert mysql.password in state.read_text()
    for login in (mysql.password, mysql.cdc.password, mysql.debezium.password):
        assert login not in repr(servers)


def test_no_password_is_in_a_log_or_on_a_command_line(
    servers: stack.Stack, mysql: MySqlServer, connect_worker: ConnectWorker
) -> None:
    logs = "".join(path.read_text(errors="replace") for path in servers.logs.glob("*.log"))
    lines = "".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in all_pids(servers) if start_time(pid))
    for login in (mysql.password, mysql.cdc.password, mysql.debezium.password):
        assert login not in logs
        assert login not in lines


def test_a_new_mysql_has_no_history_and_a_killed_one_comes_back_with_its_data(tmp_path: Path) -> None:
    with stack.start(tmp_path / "s", ("mysql",)) as own:
        assert own.mysql["mysql"].execute("SELECT @@GLOBAL.gtid_executed") == [("",)]
        own.mysql["mysql"].execute(
            "CREATE DATABASE kept", "CREATE TABLE kept.t (id INT)", "INSERT INTO kept.t VALUES (7)"
        )
        for pid in descendants(own.mysql["mysql"].child.pid):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not own.mysql["mysql"].child.alive or None, timeout=10, what="mysqld to be gone")
        (answer,) = own.health()
        assert (answer.ok, answer.said) == (False, "has ended")
        assert "ready for connections" in answer.tail
        assert own.restart_mysql().execute("SELECT id FROM kept.t") == [(7,)]


def test_a_server_that_fails_to_start_leaves_nothing_and_shows_its_log(tmp_path: Path) -> None:
    broken = MySqlSettings(name="broken", extra=("--no-such-option=1",))
    with pytest.raises(stack.StackError, match=r"no-such-option"):
        stack.start(tmp_path / "s", ("kafka", "mysql"), mysql_settings=[broken])
    left = stack.Stack.load(tmp_path / "s")
    assert left.kafka is not None
    assert none_left(all_pids(left))


def stack_command(*args: str) -> subprocess.CompletedProcess[str]:
    """One command line of the stack."""
    argv = [sys.executable, "-m", "stack", *args]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_up_keep_status_down_wipe(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    up = stack_command("up", "--keep", "--services", "kafka", "--dir", str(folder))
    assert up.returncode == 0, up.stderr
    try:
        well = stack_command("status", "--dir", str(folder))
        assert (well.returncode, well.stdout.split()[:2]) == (0, ["kafka", "ok"])
        again = stack_command("up", "--keep", "--services", "kafka", "--dir", str(folder))
        assert (again.returncode, "runs in" in again.stderr) == (2, True)
        assert "export STACK_KAFKA=127.0.0.1:" in stack_command("env", "--dir", str(folder)).stdout
        pids = all_pids(stack.Stack.load(folder))
    finally:
        assert stack_command("down", "--dir", str(folder)).returncode == 0
    assert none_left(pids)
    ended = stack_command("status", "--dir", str(folder))
    assert (ended.returncode, "has ended" in ended.stdout) == (1, True)
    assert stack_command("wipe", "--dir", str(folder)).returncode == 0
    assert not folder.exists()
    gone = stack_command("status", "--dir", str(folder))
    assert (gone.returncode, "Traceback" in gone.stderr) == (2, False)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_up_leaves_nothing(tmp_path: Path, signum: signal.Signals) -> None:
    argv = [sys.executable, "-m", "stack", "up", "--services", "kafka", "--dir", str(tmp_path / "s")]
    up = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert up.stdout is not None
    assert any("Ctrl-C ends it" in line for line in up.stdout)
    pids = all_pids(stack.Stack.load(tmp_path / "s"))
    assert len(pids) >= 2
    up.send_signal(signum)
    up.communicate(timeout=60)
    assert none_left(pids)
    assert up.returncode == (130 if signum == signal.SIGINT else -signal.SIGKILL)


@pytest.mark.slow  # Debian's unstable packages: what they are tomorrow nobody knows
def test_mysql_97_speaks_the_new_statements(tmp_path: Path) -> None:
    with stack.start(tmp_path / "s", ("mysql",), mysql_settings=[MySqlSettings(series="9.7")]) as own:
        server = own.mysql["mysql"]
        assert server.version.startswith("9.7.")
        assert server.execute("SHOW BINARY LOG STATUS")[0][0] == "mysql-bin.000001"
        with server.connect(server.cdc) as connection:
            assert connection.get_server_info().startswith("9.7.")
        state = json.loads((own.folder / "stack.json").read_text())
        assert state["versions"]["mysql"] == {"mysql": server.version}


@pytest.fixture(scope="module")
def running_airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """An Airflow of its own with one DAG."""
    dags = tmp_path_factory.mktemp("dags")
    (dags / "hello.py").write_text(DAG)
    secret = {"conn_type": "http", "host": "x", "password": "never-to-be-seen"}
    settings = AirflowSettings(dags, {"AIRFLOW_CONN_EXAMPLE": json.dumps(secret)})
    folder = tmp_path_factory.mktemp("airflow-stack") / "s"
    with stack.start(folder, (), airflow_settings=lambda _: settings) as own:
        yield own


def airflow_of(running: stack.Stack) -> AirflowServer:
    """The Airflow of a stack."""
    assert running.airflow is not None
    return running.airflow


@pytest.mark.slow
def test_airflow_runs_a_dag_with_spark_and_java_at_hand(running_airflow: stack.Stack) -> None:
    client = airflow_of(running_airflow).client()
    client.wait_dag("hello")
    run = client.trigger("hello")
    assert client.wait_run("hello", run, timeout=120) == "success"
    found = client.xcom("hello", run, "where")
    assert Path(found["spark_submit"]).parent == Path(sys.executable).parent
    assert (Path(found["java"]) / "bin" / "java").exists()
    assert "Done. Returned value was" in client.log("hello", run, "first")
    assert client.clear("hello", run, ["second"]) == ["second"]
    assert client.wait_run("hello", run, timeout=120) == "success"
    assert client.tasks("hello", run)["second"]["try_number"] == 2


@pytest.mark.slow
def test_a_killed_scheduler_is_seen_and_comes_back(running_airflow: stack.Stack) -> None:
    child = airflow_of(running_airflow).children["scheduler"]
    pids = (child.pid, *descendants(child.pid))
    os.kill(pids[1], signal.SIGKILL)
    assert none_left(pids)
    assert {one.name: one.ok for one in running_airflow.health()}["airflow-scheduler"] is False
    running_airflow.restart_airflow("scheduler")
    client = airflow_of(running_airflow).client()
    assert client.wait_run("hello", client.trigger("hello"), timeout=120) == "success"


@pytest.mark.slow
def test_secrets_of_airflow_are_in_private_files_only(running_airflow: stack.Stack) -> None:
    server = airflow_of(running_airflow)
    for name in ("airflow.cfg", "passwords.json"):
        assert stat.S_IMODE((Path(server.home) / name).stat().st_mode) == 0o600
    texts = [path.read_text(errors="replace") for path in running_airflow.logs.glob("airflow-*.log")]
    for secret in (server.password, "never-to-be-seen"):
        assert secret not in repr(server)
        assert not any(secret in text for text in texts)


@pytest.mark.slow
def test_a_dag_that_does_not_import_is_an_error_that_shows_why(running_airflow: stack.Stack) -> None:
    server = airflow_of(running_airflow)
    broken = server.settings.dags_folder / "broken.py"
    broken.write_text("# a dag of airflow\nimport no_such_module_at_all\n")
    try:
        with pytest.raises(stack.StackError, match="no_such_module_at_all"):
            server.client().wait_dag("broken", timeout=60)
    finally:
        broken.unlink()


@pytest.mark.slow
def test_airflow_listens_on_loopback_only(running_airflow: stack.Stack) -> None:
    child = airflow_of(running_airflow).children["api-server"]
    pids = {child.pid, *descendants(child.pid)}
    assert listening(pids) == {"0100007F"}


def listening(pids: set[int]) -> set[str]:
    """Addresses (hexadecimal, as /proc/net/tcp writes them) on which processes listen with IPv4."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                inodes.add(str(link.readlink()).removeprefix("socket:[").rstrip("]"))
            except OSError:
                continue
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes}


def test_the_cache_is_enough_without_a_network() -> None:
    code = (
        "import stack.fetch as f\n"
        "def no(*_, **__): raise SystemExit('the network was asked for')\n"
        "f._run_ivy = no\n"
        "f.fetch_all()\n"
        "print('offline')\n"
    )
    fetch.fetch_all()
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("offline", 0)
