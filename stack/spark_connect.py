"""A real Spark Connect server on loopback, with the project's jars; its clients need no Java."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stack import fetch, jvm
from stack.ports import HOST, free_ports
from stack.process import Child, end, spawn, wait_until

HEAP: Final = "1500m"
START_TIMEOUT_S: Final = 120.0
SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
EXTENSIONS: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
# in the environment of server and client: an option would be in ps
TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"


@dataclass(frozen=True, slots=True)
class SparkConnectServer:
    """A running server. A token is taken without TLS only by the name localhost."""

    port: int
    token: str = field(repr=False)
    child: Child

    @property
    def url(self) -> str:
        return f"sc://localhost:{self.port}"

    def stop(self) -> None:
        """End it, with its Python workers."""
        end(self.child)


def start_spark_connect(
    base: Path, logs: Path, *, cores: int = 2, zone: str = "UTC", conf: Mapping[str, str] | None = None
) -> SparkConnectServer:
    """Start a server of so many tasks at once under `base/spark-connect`, and wait until it listens."""
    (port,) = free_ports(1)
    folder = base / "spark-connect"
    folder.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(16)
    settings = {
        **jvm.conf(f"-Duser.timezone={zone}"),
        "spark.driver.memory": HEAP,
        "spark.driver.bindAddress": HOST,
        "spark.driver.host": HOST,
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.extensions": EXTENSIONS,
        "spark.local.dir": str(folder),
        "spark.scheduler.mode": "FAIR",
        **(conf or {}),
    }
    options = [f"--conf={key}={value}" for key, value in settings.items()]
    submit = str(Path(sys.executable).with_name("spark-submit"))
    argv = [submit, "--class", SERVER, "--master", f"local[{cores}]", *options, "spark-internal"]
    env = {
        **os.environ,
        TOKEN: token,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(fetch.pyspark_jars().parent),
    }
    log = logs / "spark-connect.log"
    child = spawn("spark-connect", argv, log=log, cwd=folder, env=env)
    wait_until(lambda: _listens(port), timeout=START_TIMEOUT_S, what=f"Spark Connect on {HOST}:{port}", child=child)
    return SparkConnectServer(port, token, child)


def _listens(port: int) -> bool | None:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return None
    return True
