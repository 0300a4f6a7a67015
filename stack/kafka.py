"""One Kafka broker in KRaft mode (broker and controller in one process)."""

from __future__ import annotations

import base64
import socket
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stack import fetch, template
from stack.errors import StackError
from stack.ports import HOST, free_ports
from stack.process import Child, spawn, wait_until

HEAP = "256m"
START_TIMEOUT_S = 240.0

# shared with docker-compose.yaml, where each becomes KAFKA_<NAME> (a test compares them)
SETTINGS: dict[str, str] = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
    "auto.create.topics.enable": "true",
    "log.retention.hours": "168",
    # the default of 128 MB is half of the small heap
    "log.cleaner.dedupe.buffer.size": "16777216",
}


@dataclass(frozen=True, slots=True)
class KafkaBroker:
    """A running broker."""

    bootstrap: str
    controller: str
    cluster_id: str
    folder: str
    child: Child

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> KafkaBroker:
        return cls(**{**value, "child": Child.from_json(value["child"])})


def start_kafka(
    base: Path,
    logs: Path,
    *,
    keep: bool = False,
    protocol: str = "PLAINTEXT",
    more: Mapping[str, str] | None = None,
    proxied: tuple[int, int] | None = None,
) -> KafkaBroker:
    """Format (a new folder) and start a broker under `base/kafka`; returns without waiting: see `wait_ready`.

    `protocol` is its listener's (PLAINTEXT, SASL_SSL, …); `more` are the settings that this needs. `proxied`: the port of a
    second listener, and that of the proxy through which its clients come.
    """
    folder = base / "kafka"
    folder.mkdir(parents=True, exist_ok=True)
    port, controller = free_ports(2)
    cluster_id = _identity()
    config = folder / "kraft.properties"
    config.touch(mode=0o600)
    made = _properties(folder, port, controller, protocol)
    if proxied is not None:
        for name, own in zip(("listeners", "advertised.listeners"), proxied, strict=True):
            made[name] += f",PROXIED://{HOST}:{own}"
        made["listener.security.protocol.map"] += ",PROXIED:PLAINTEXT"
    config.write_text(properties({**made, **(more or {})}))
    log_config = write_log_config(folder)
    _format(config, cluster_id, log_config)
    child = _launch(config, log_config, logs / "kafka.log", keep=keep)
    return KafkaBroker(f"{HOST}:{port}", f"{HOST}:{controller}", cluster_id, str(folder), child)


def restart_kafka(broker: KafkaBroker, *, keep: bool = False) -> KafkaBroker:
    """Start a stopped broker again on its data and ports."""
    folder = Path(broker.folder)
    child = _launch(folder / "kraft.properties", folder / "log4j.properties", Path(broker.child.log), keep=keep)
    return wait_ready(KafkaBroker(broker.bootstrap, broker.controller, broker.cluster_id, broker.folder, child))


def wait_ready(broker: KafkaBroker) -> KafkaBroker:
    """Wait until the broker says in its log that it runs, and its port is open."""
    wait_until(
        lambda: is_open(broker.bootstrap) or None,
        timeout=START_TIMEOUT_S,
        what=f"Kafka on {broker.bootstrap}",
        child=broker.child,
    )
    return broker


def said(broker: KafkaBroker) -> str | None:
    """The broker's address if it accepts connections."""
    return broker.bootstrap if is_open(broker.bootstrap) else None


def is_open(address: str) -> bool:
    """True if something accepts connections at host:port."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2):
            return True
    except OSError:
        return False


def properties(values: Mapping[str, str]) -> str:
    """A Java properties file."""
    lines = {key: value.replace("\\", "\\\\").replace("\n", "\\n") for key, value in values.items()}
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def write_log_config(folder: Path) -> Path:
    """Logs go to stdout, which is the server's file in the log folder."""
    path = folder / "log4j.properties"
    path.write_text(
        "log4j.rootLogger=INFO, out\n"
        "log4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{1} %m%n\n"
        "log4j.logger.org.reflections=ERROR\n"
        # Connect prints whole configurations at INFO: they hold passwords
        "log4j.logger.org.apache.kafka.common.config.AbstractConfig=WARN\n"
        "log4j.logger.org.apache.kafka.connect.runtime.rest.RestServer=WARN\n"
    )
    return path


def quick(heap: str) -> tuple[str, ...]:
    """Options of a JVM of small size for one server.

    The quick compiler alone: over the two minutes that most runs last, the optimising one costs more than it gains
    (Kafka 36 → 19 s of CPU, Connect with two connectors 86 → 51 s).
    """
    return (
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=128m",  # the quick compiler's default of 48 MB is filled soon
        f"-Xmx{heap}",
        "-Xms64m",
        "-XX:+UseSerialGC",
    )


def java_command(options: Sequence[str], log_config: Path, class_path: str, main: str, *args: str) -> list[str]:
    """The command line of one server."""
    return [
        fetch.java(),
        *options,
        "-Djava.awt.headless=true",
        f"-Dlog4j.configuration=file:{log_config}",
        "-cp",
        class_path,
        main,
        *args,
    ]


def _properties(folder: Path, port: int, controller: int, protocol: str) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listeners": f"{protocol}://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"{protocol}://{HOST}:{port}",
        "inter.broker.listener.name": protocol,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "data"),
        **SETTINGS,
    }


def _format(config: Path, cluster_id: str, log_config: Path) -> None:
    """A new storage: what Kafka's own tool made of these jars before, under identities of its own."""
    folder = config.parent
    template.copied("kafka", fetch.set_dir("kafka"), folder / "data", lambda part: _fill(part, config, log_config))
    own = {"cluster.id": cluster_id, "directory.id": _identity()}
    meta = folder / "data" / "meta.properties"
    lines = (line.partition("=") for line in meta.read_text().splitlines())
    meta.write_text("".join(f"{name}{sign}{own.get(name, value)}\n" for name, sign, value in lines))


def _fill(part: Path, config: Path, log_config: Path) -> None:
    own = part.with_suffix(".properties")
    own.touch(mode=0o600)
    own.write_text(f"{config.read_text()}log.dirs={part}\n")  # the last line of a name holds
    # joined by "=": one id in 64 begins with a dash
    argv = java_command(
        quick(HEAP), log_config, fetch.classpath("kafka"), "kafka.tools.StorageTool", "format",
        f"--cluster-id={_identity()}", "-c", str(own), "--ignore-formatted",
    )  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    own.unlink()
    if done.returncode != 0:
        raise StackError(f"Kafka could not format {part}:\n{(done.stdout + done.stderr)[-1500:]}")


def _identity() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _launch(config: Path, log_config: Path, log: Path, *, keep: bool) -> Child:
    argv = java_command(quick(HEAP), log_config, fetch.classpath("kafka"), "kafka.Kafka", str(config))
    return spawn("kafka", argv, log=log, keep=keep)
