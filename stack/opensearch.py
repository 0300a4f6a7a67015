"""A real OpenSearch node, without security and on loopback.

OpenSearch's distribution is in no Maven repository, so its launcher is a few lines of our own
(`opensearch_files/OpenSearchMain.java`) around OpenSearch's own jars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from stack import fetch
from stack.kafka import is_open, quick
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


def start_opensearch(base: Path, logs: Path, *, keep: bool = False, port: int = 0) -> OpenSearchNode:
    """Start a node under `base/opensearch` and wait until it answers. `port`: the one that it had before it ended."""
    folder = base / "opensearch"
    folder.mkdir(parents=True, exist_ok=True)
    free, transport = free_ports(2)
    http = port or free
    argv = [
        fetch.java(), *quick(HEAP), "-cp", fetch.classpath("opensearch"),
        str(MAIN), str(folder), str(http), str(transport),
    ]  # fmt: skip
    child = spawn("opensearch", argv, log=logs / "opensearch.log", keep=keep, cwd=folder)
    address = f"{HOST}:{http}"
    wait_until(lambda: is_open(address) or None, timeout=START_TIMEOUT_S, what=f"OpenSearch on {address}", child=child)
    return OpenSearchNode(f"http://{address}", str(folder), child)
