"""A Kafka Connect worker (distributed mode) with the Debezium plugin."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from stack import fetch, rest
from stack.errors import StackError
from stack.kafka import java_command, properties, quick, write_log_config
from stack.ports import HOST, free_port
from stack.process import Child, end, spawn, wait_until

# The worker of a test: small, and quick to start.
HEAP = "700m"
QUICK = quick(HEAP)
# As Kafka's own start script runs it: KAFKA_HEAP_OPTS of connect-distributed.sh, KAFKA_JVM_PERFORMANCE_OPTS of
# kafka-run-class.sh. For whoever compares how long a connector takes.
AS_SHIPPED = (
    "-server",
    "-Xms256M",
    "-Xmx2G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
START_TIMEOUT_S = 300.0
_KEYSTORE = "listeners.https.ssl.keystore.location"
_EXTENSIONS = "rest.extension.classes"
_BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
DEBEZIUM_CLASS = "io.debezium.connector.mysql.MySqlConnector"
MARIADB_CLASS = "io.debezium.connector.mariadb.MariaDbConnector"
POSTGRES_CLASS = "io.debezium.connector.postgresql.PostgresConnector"
JDBC_SINK_CLASS = "io.debezium.connector.jdbc.JdbcSinkConnector"
ICEBERG_SINK_CLASS = "org.apache.iceberg.connect.IcebergSinkConnector"
# set of jars → the connector that it holds
PLUGINS: dict[str, str] = {
    "debezium": DEBEZIUM_CLASS,
    "debezium-mariadb": MARIADB_CLASS,
    "debezium-postgres": POSTGRES_CLASS,
    "debezium-1": DEBEZIUM_CLASS,
    "debezium-jdbc": JDBC_SINK_CLASS,
    "iceberg-sink": ICEBERG_SINK_CLASS,
}

# shared with docker-compose.yaml (a test compares them)
SETTINGS: dict[str, str] = {
    "group.id": "cdc",
    "config.storage.topic": "connect_configs",
    "offset.storage.topic": "connect_offsets",
    "status.storage.topic": "connect_statuses",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "4",
    "status.storage.partitions": "2",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "offset.flush.interval.ms": "1000",
    "connector.client.config.override.policy": "All",
}
# only here: one worker has nobody to wait for when it joins its group, and every plugin of this set has a service file, so
# that no class path is scanned (start 55 s → 21 s on a loaded machine, the same 69 plugins); a connector's secrets may stand
# in a file: ${file:…}
_LOCAL: dict[str, str] = {
    "scheduled.rebalance.max.delay.ms": "0",
    "plugin.discovery": "service_load",
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}


@dataclass(frozen=True, slots=True)
class ConnectWorker:
    """A running worker; `url` has no slash at its end."""

    url: str
    bootstrap: str
    folder: str
    child: Child
    java: tuple[str, ...] = QUICK
    release: str = "kafka"

    def call(self, method: str, path: str, body: Any = None, *, timeout: float = 90.0) -> Any:
        """One REST call; the decoded answer or None. Any status of 400 and above is a StackError."""
        return rest.call(method, self.url + path, body, timeout=timeout)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ConnectWorker:
        return cls(**{**value, "child": Child.from_json(value["child"]), "java": tuple(value["java"])})


def start_connect(
    base: Path,
    logs: Path,
    bootstrap: str,
    *,
    keep: bool = False,
    more: Mapping[str, str] | None = None,
    jaas: Path | None = None,
    plugins: Sequence[str] = ("debezium",),
    java: tuple[str, ...] = QUICK,
    release: str = "kafka",
    name: str = "connect",
) -> ConnectWorker:
    """Start a worker under `base/name`; returns without waiting: see `wait_ready`. `plugins`: keys of PLUGINS.

    `more` are settings of its own, such as those of an https listener; `jaas` says who may log in, and asks for logins.
    `java`: options of its JVM, QUICK or AS_SHIPPED. `release`: the set of jars that it is made of, `connect-old` or Kafka's own.
    """
    folder = base / name
    folder.mkdir(parents=True, exist_ok=True)
    settings, scheme = dict(more or {}), "https" if more and _KEYSTORE in more else "http"
    port = free_port()
    own = {"listeners": f"{scheme}://{HOST}:{port}", **({_EXTENSIONS: _BASIC_AUTH} if jaas else {}), **settings}
    config = folder / "connect.properties"
    config.touch(mode=0o600)
    config.write_text(properties({**_properties(bootstrap, plugins), **own}))
    write_log_config(folder)
    worker = ConnectWorker(f"{scheme}://{HOST}:{port}", bootstrap, str(folder), Child(name, -1, -1, ""), java, release)
    return _launch(worker, logs / f"{name}.log", keep=keep, jaas=jaas)


def restart_connect(worker: ConnectWorker, *, keep: bool = False) -> ConnectWorker:
    """End a worker (if it runs) and start it again on its port."""
    end(worker.child)
    return wait_ready(_launch(worker, Path(worker.child.log), keep=keep))


def wait_ready(worker: ConnectWorker) -> ConnectWorker:
    """Wait until the worker has joined its group and lists a Debezium plugin."""
    wait_until(
        lambda: has_debezium(worker) or None,
        timeout=START_TIMEOUT_S,
        what=f"Kafka Connect at {worker.url}",
        child=worker.child,
        interval=0.5,
    )
    return worker


@contextmanager
def ready(worker: ConnectWorker) -> Iterator[ConnectWorker]:
    """A worker that was started, once it is ready (`wait_ready`); it ends with the block."""
    try:
        yield wait_ready(worker)
    finally:
        end(worker.child)


def said(worker: ConnectWorker) -> str | None:
    """The worker's address if it answers and has the plugin."""
    return worker.url if has_debezium(worker) else None


def has_debezium(worker: ConnectWorker) -> bool:
    """True if the worker answers and has the plugin; listing connectors proves that it has joined its group."""
    try:
        worker.call("GET", "/connectors", timeout=5)
        plugins = worker.call("GET", "/connector-plugins", timeout=10)
    except StackError:
        return False
    return any(plugin["class"] in PLUGINS.values() for plugin in plugins)


def _properties(bootstrap: str, plugins: Sequence[str]) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "rest.advertised.host.name": HOST,
        "plugin.path": ",".join(str(fetch.fetch(plugin).parent) for plugin in plugins),
        **SETTINGS,
        **_LOCAL,
    }


def _launch(worker: ConnectWorker, log: Path, *, keep: bool, jaas: Path | None = None) -> ConnectWorker:
    folder = Path(worker.folder)
    class_path, env = fetch.classpath(worker.release), dict(os.environ)
    if jaas is not None:
        class_path = os.pathsep.join((class_path, fetch.classpath("connect-auth")))
        env["JAVA_TOOL_OPTIONS"] = f"-Djava.security.auth.login.config={jaas}"
    argv = java_command(
        worker.java,
        folder / "log4j.properties",
        class_path,
        "org.apache.kafka.connect.cli.ConnectDistributed",
        str(folder / "connect.properties"),
    )
    return replace(worker, child=spawn(worker.child.name, argv, log=log, keep=keep, env=env))
