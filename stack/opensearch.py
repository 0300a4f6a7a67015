"""A real OpenSearch node on loopback, without security or with OpenSearch's own plugin for it.

OpenSearch's distribution is in no Maven repository, so its launcher is a few lines of our own
(`opensearch_files/OpenSearchMain.java`) around OpenSearch's own jars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from stack import fetch, opensearch_security
from stack.kafka import is_open, quick
from stack.opensearch_security import Security
from stack.ports import HOST, free_ports
from stack.process import Child, spawn, wait_until

MAIN: Final = Path(__file__).with_name("opensearch_files") / "OpenSearchMain.java"
HEAP: Final = "512m"
START_TIMEOUT_S: Final = 240.0


@dataclass(frozen=True, slots=True)
class OpenSearchNode:
    """A running node; `url` is its REST interface."""

    url: str
    folder: str
    child: Child

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> OpenSearchNode:
        return cls(**{**value, "child": Child.from_json(value["child"])})


def start_opensearch(
    base: Path, logs: Path, *, keep: bool = False, port: int = 0, secured: Security | None = None
) -> OpenSearchNode:
    """Start a node under `base/opensearch` and wait until it answers.

    `port`: the one that it had before it ended. `secured`: with the security plugin.
    """
    folder = base / "opensearch"
    folder.mkdir(parents=True, exist_ok=True)
    free, transport = free_ports(2)
    http = port or free
    path, more = fetch.classpath("opensearch"), []
    if secured:
        plugin = base / "security"
        path = f"{path}:{opensearch_security.classpath(plugin)}"
        more = [str(opensearch_security.prepare(secured, folder / "node_1" / "config", plugin))]
    argv = [
        fetch.java(), *quick(HEAP), "-cp", path,
        str(MAIN), str(folder), str(http), str(transport), *more,
    ]  # fmt: skip
    child = spawn("opensearch", argv, log=logs / "opensearch.log", keep=keep, cwd=folder)
    address = f"{HOST}:{http}"
    url = f"{'https' if secured else 'http'}://{address}"

    def answers() -> bool | None:
        return (opensearch_security.is_ready(url, secured) if secured else is_open(address)) or None

    wait_until(answers, timeout=START_TIMEOUT_S, what=f"OpenSearch on {address}", child=child)
    return OpenSearchNode(url, str(folder), child)
