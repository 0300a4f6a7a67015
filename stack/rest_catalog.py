"""A real Iceberg REST catalog on loopback: the server of Iceberg's own tests, its tables in SQLite.

It has no login and no TLS. It can be made to refuse what guarded catalogs refuse (`refuses`), which is a stand-in: no
such catalog's server is in a Maven repository.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack import fetch, versions
from stack.kafka import is_open, properties, quick
from stack.ports import HOST, free_port
from stack.process import Child, spawn, wait_until

MAIN: Final = Path(__file__).with_name("rest_catalog_files") / "RestCatalogMain.java"
HEAP: Final = "256m"
START_TIMEOUT_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class RestCatalog:
    """A running catalog; `url` is its REST interface."""

    url: str
    child: Child
    version: str = versions.ICEBERG_REST


def start_rest_catalog(base: Path, logs: Path, warehouse: Mapping[str, str], *, refuses: str = "") -> RestCatalog:
    """Start a catalog under `base/rest-catalog`. `warehouse`: Iceberg's Java properties of where its tables are.

    `refuses`: "register" for a stand-in of guarded catalogs (Polaris by its documentation): it registers no table, and
    allows neither two tables at one location nor a location outside the table's namespace. "register, create": it
    creates no table in the namespace of stages either.
    """
    folder = base / "rest-catalog"
    folder.mkdir(parents=True, exist_ok=True)
    settings, port = folder / "catalog.properties", free_port()
    tables = {"type": "jdbc", "uri": f"jdbc:sqlite:{folder / 'catalog.db'}", "jdbc.schema-version": "V1"}
    with os.fdopen(os.open(settings, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(properties({**tables, **warehouse, **({"cdc.refuses": refuses} if refuses else {})}))
    argv = [
        fetch.java(), *quick(HEAP), "-cp", fetch.classpath("iceberg-rest"),
        str(MAIN), HOST, str(port), str(settings),
    ]  # fmt: skip
    child, address = spawn("rest-catalog", argv, log=logs / "rest-catalog.log", cwd=folder), f"{HOST}:{port}"
    wait_until(
        lambda: is_open(address) or None, timeout=START_TIMEOUT_S, what=f"REST catalog on {address}", child=child
    )
    return RestCatalog(f"http://{address}", child)
