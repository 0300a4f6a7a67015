"""A real Hive Metastore on loopback, its tables in Derby: Hive's own handler on a server of one address.

It has no login and no TLS.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack import fetch, versions
from stack.kafka import is_open, properties, quick
from stack.ports import HOST, free_port
from stack.process import Child, spawn, wait_until

MAIN: Final = Path(__file__).with_name("hive_files") / "MetastoreMain.java"
HEAP: Final = "256m"
START_TIMEOUT_S: Final = 180.0
# DataNucleus of that time looks into Java's own classes
OPENED: Final = ("java.base/java.lang", "java.base/java.net", "java.base/java.util")


@dataclass(frozen=True, slots=True)
class Metastore:
    """A running metastore; `url` is its Thrift interface."""

    url: str
    child: Child
    version: str = versions.HIVE


def start_metastore(base: Path, logs: Path, warehouse: str) -> Metastore:
    """Start a metastore under `base/hive`, its tables under the URL `warehouse`."""
    folder = base / "hive"
    folder.mkdir(parents=True, exist_ok=True)
    settings, port = folder / "metastore.properties", free_port()
    with os.fdopen(os.open(settings, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(properties(_settings(folder, warehouse)))
    argv = [
        fetch.java(), *quick(HEAP), *(f"--add-opens={name}=ALL-UNNAMED" for name in OPENED),
        "-cp", fetch.classpath("hive-metastore"), str(MAIN), HOST, str(port), str(settings),
    ]  # fmt: skip
    child, address = spawn("hive", argv, log=logs / "hive.log", cwd=folder), f"{HOST}:{port}"
    wait_until(
        lambda: is_open(address) or None, timeout=START_TIMEOUT_S, what=f"Hive Metastore on {address}", child=child
    )
    return Metastore(f"thrift://{address}", child)


def _settings(folder: Path, warehouse: str) -> dict[str, str]:
    return {
        "metastore.warehouse.dir": warehouse,
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'derby'};create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "metastore.schema.verification": "false",
        # the default ones are in Hive itself
        "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
        "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
    }
