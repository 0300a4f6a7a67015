"""A real schema registry on loopback: Apicurio, its schemas in memory, which serves Confluent's REST interface as well."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack import fetch, versions
from stack.kafka import is_open, quick
from stack.ports import HOST, free_port
from stack.process import Child, spawn, wait_until

HEAP: Final = "400m"
START_TIMEOUT_S: Final = 180.0
AVRO: Final = "io.apicurio.registry.utils.converter.AvroConverter"
JSON_SCHEMA: Final = "io.apicurio.registry.utils.converter.ExtJsonConverter"
# where a converter writes a schema's id → the settings that make it so
FORMS: Final[Mapping[str, Mapping[str, str]]] = {
    "headers": {},
    "apicurio": {"apicurio.registry.headers.enabled": "false"},
    "confluent": {
        "apicurio.registry.headers.enabled": "false",
        "apicurio.registry.as-confluent": "true",
        "apicurio.registry.use-id": "contentId",
    },
}
# for a worker with these converters: not each of its jars names its plugins in a service file
WORKER: Final[Mapping[str, str]] = {"plugin.discovery": "hybrid_warn"}
_RUNNER: Final = f"apicurio-registry-app-{versions.APICURIO}-runner.jar"


@dataclass(frozen=True, slots=True)
class Registry:
    """A running registry. `url`: Apicurio's own interface; `confluent`: the one that Confluent's clients ask."""

    url: str
    confluent: str
    child: Child
    version: str = versions.APICURIO

    def converter(self, side: str, form: str, kind: str = AVRO) -> dict[str, str]:
        """A connector's settings with which its keys or values are written so: a key of FORMS."""
        settings = {
            "": kind,
            "apicurio.registry.url": self.url,
            "apicurio.registry.auto-register": "true",
            "apicurio.registry.find-latest": "true",
            **FORMS[form],
        }
        return {f"{side}.converter{'.' if name else ''}{name}": value for name, value in settings.items()}


def start_registry(base: Path, logs: Path, *, port: int = 0, more: Mapping[str, str] | None = None) -> Registry:
    """Start a registry and wait until it answers. `port`: the one that it had; `more`: settings of its own, by their names."""
    port = port or free_port()
    address = f"{HOST}:{port}"
    settings = {"quarkus.http.host": HOST, "quarkus.http.port": str(port), **(more or {})}
    argv = [fetch.java(), *quick(HEAP), *(f"-D{k}={v}" for k, v in settings.items()), "-jar", str(home() / _RUNNER)]
    base.mkdir(parents=True, exist_ok=True)
    child = spawn("registry", argv, log=logs / "registry.log", cwd=base)
    wait_until(lambda: is_open(address) or None, timeout=START_TIMEOUT_S, what=f"registry on {address}", child=child)
    return Registry(f"http://{address}/apis/registry/v2", f"http://{address}/apis/ccompat/v7", child)


def home() -> Path:
    """The unpacked distribution."""
    (archive,), (jar,) = fetch.set_jars("registry"), fetch.jars_of("registry")
    unpacked = fetch.cache_dir() / f"registry-{versions.APICURIO}-{jar.sha256[:12]}"
    with fetch.exclusive(unpacked):
        root = unpacked / "root"
        if not root.exists():
            part = Path(f"{root}.part")
            shutil.rmtree(part, ignore_errors=True)
            with tarfile.open(archive) as tar:
                tar.extractall(part, filter="data")
            part.replace(root)
    (runner,) = root.rglob(_RUNNER)
    return runner.parent
