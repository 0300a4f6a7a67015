"""Cursors in ZooKeeper's nodes: a tree that is made here; a real server: tests/integration/canal."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo import client as kazoo
from kazoo.handlers.threading import KazooTimeoutError

from airflow_cdc.connectors.canal.endpoint import CanalEndpoint
from airflow_cdc.connectors.canal.stores.cursors import CLIENT, CursorStore
from airflow_cdc.connectors.canal.stores.zookeeper import ZooKeeperCursors
from airflow_cdc.core.errors import ConnectorError
from tests.unit.connectors.canal.test_cursor import REAL, at, real

ROOT = "/otter/canal/destinations/shop"
OURS, OTHER = f"{ROOT}/{CLIENT}/cursor", f"{ROOT}/1002/cursor"


@dataclass
class Tree:
    """Nodes: path → bytes. `told`: sessions begun and ended. `meanwhile`: what another session does before a commit."""

    nodes: dict[str, bytes]
    told: list[str] = field(default_factory=list)
    meanwhile: Any = lambda: None
    fails: Exception | None = None


class Client:
    """A session, as far as Kazoo's is used."""

    def __init__(self, tree: Tree, **given: Any) -> None:
        self.tree, self.given = tree, given

    def start(self, timeout: float) -> None:
        self.tree.told.append(f"start {timeout:g}")
        if self.tree.fails is not None:
            raise self.tree.fails

    def stop(self) -> None:
        self.tree.told.append("stop")

    def close(self) -> None:
        self.tree.told.append("close")

    def exists(self, path: str) -> Any:
        if path in self.tree.nodes:
            return SimpleNamespace(version=self.tree.nodes[path])
        return any(node.startswith(f"{path}/") for node in self.tree.nodes) or None

    def get(self, path: str) -> tuple[bytes, Any]:
        return self.tree.nodes[path], None

    def get_children(self, path: str) -> list[str]:
        below = (node.removeprefix(f"{path}/") for node in self.tree.nodes if node.startswith(f"{path}/"))
        return sorted({one.partition("/")[0] for one in below})

    def ensure_path(self, path: str) -> None:
        assert path.startswith(ROOT)

    def transaction(self) -> Transaction:
        return Transaction(self.tree)


@dataclass
class Transaction:
    """All of it, or nothing where a node is no longer what it was."""

    tree: Tree
    steps: list[tuple[str, bytes | None, bytes | None]] = field(default_factory=list)

    def delete(self, node: str, version: bytes) -> None:
        self.steps.append((node, None, version))

    def set_data(self, node: str, content: bytes, version: bytes) -> None:
        self.steps.append((node, content, version))

    def create(self, node: str, content: bytes) -> None:
        self.steps.append((node, content, None))

    def commit(self) -> list[Any]:
        self.tree.meanwhile()
        if any(self.tree.nodes.get(node) != version for node, _, version in self.steps):
            return [RuntimeError("rolled back") for _ in self.steps]
        for node, content, _ in self.steps:
            self.tree.nodes.pop(node, None)
            if content is not None:
                self.tree.nodes[node] = content
        return [True for _ in self.steps]


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Tree:
    made = Tree({OURS: REAL.encode(), OTHER: REAL.replace("801", "4").encode(), f"{ROOT}/filter": b"x"})
    monkeypatch.setattr(kazoo, "KazooClient", lambda **given: Client(made, **given))
    return made


@pytest.fixture
def cursors() -> ZooKeeperCursors:
    return ZooKeeperCursors(CanalEndpoint("zk:2181", timeout=3.0), "shop")


def test_every_clients_cursor_is_read_and_what_is_no_client_is_passed_over(
    tree: Tree, cursors: ZooKeeperCursors
) -> None:
    assert cursors.read() == {CLIENT: real(), 1002: at(position=4)}
    tree.nodes[OTHER] = b""
    assert cursors.read() == {CLIENT: real(), 1002: None}
    tree.nodes.clear()
    assert cursors.read() == {}


def test_a_write_sets_every_client_at_once_and_the_first_value_puts_all_back_to_the_byte(
    tree: Tree, cursors: ZooKeeperCursors
) -> None:
    """The smallest cursor of all clients decides where Canal reads on."""
    before = dict(tree.nodes)
    store = CursorStore(cursors, lambda: None)
    store.write(at(position=900))
    assert cursors.read() == {CLIENT: at(position=900), 1002: at(position=900)}
    store.write(real())
    assert tree.nodes == before


def test_a_first_cursor_is_made_and_taken_away_again(tree: Tree, cursors: ZooKeeperCursors) -> None:
    tree.nodes.clear()
    store = CursorStore(cursors, lambda: None)
    store.write(real())
    assert cursors.read() == {CLIENT: real()}
    store.write(None)
    assert tree.nodes == {}


def test_somebody_else_who_wrote_meanwhile_is_noticed_and_keeps_what_he_wrote(
    tree: Tree, cursors: ZooKeeperCursors
) -> None:
    theirs = REAL.replace("801", "802").encode()
    before = cursors.stored()
    tree.nodes[OTHER] = theirs
    with pytest.raises(ConnectorError, match="meanwhile"):
        cursors.replace(before, real())
    tree.meanwhile = lambda: tree.nodes.update({OURS: theirs})
    with pytest.raises(ConnectorError, match="meanwhile"):
        cursors.replace(cursors.stored(), at(position=900))
    assert tree.nodes[OURS] == tree.nodes[OTHER] == theirs


@pytest.mark.parametrize(
    ("node", "holder"),
    [(None, ""), (b"", ""), (b'{"active":true,"address":"192.0.2.7:11111"}', "192.0.2.7:11111"), (b"{}", "unnamed")],
)
def test_the_server_that_runs_the_destination_says_so(
    tree: Tree, cursors: ZooKeeperCursors, node: bytes | None, holder: str
) -> None:
    if node is not None:
        tree.nodes[f"{ROOT}/running"] = node
    assert cursors.holder() == holder


def test_a_server_that_does_not_answer_is_named_and_no_session_is_left(tree: Tree, cursors: ZooKeeperCursors) -> None:
    tree.fails = KazooTimeoutError("Connection time-out")
    with pytest.raises(ConnectorError, match=r"KazooTimeoutError Connection time-out .*zk:2181"):
        cursors.reach()
    assert tree.told == ["start 3", "stop", "close"]
    tree.fails = None
    cursors.reach()
    assert tree.told[3:] == ["start 3", "stop", "close"]
