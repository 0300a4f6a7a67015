"""Cursors in ZooKeeper, one node per client of a destination."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_cdc.connectors.canal.endpoint import CanalEndpoint
from airflow_cdc.connectors.canal.stores.cursors import CLIENT, ByClient, changed_meanwhile, parsed, text
from airflow_cdc.core.errors import ConnectorError, needs
from airflow_cdc.core.offset import RawOffset
from airflow_cdc.core.text import number_in

if TYPE_CHECKING:
    from kazoo.client import KazooClient

_ROOT: Final = "/otter/canal/destinations"
EXTRA: Final = "canal"


@dataclass(frozen=True, slots=True)
class ZooKeeperCursors:
    """The nodes `/otter/canal/destinations/DESTINATION/CLIENT/cursor`."""

    endpoint: CanalEndpoint
    destination: str

    def reach(self) -> None:
        """Raises ConnectorError if ZooKeeper does not answer."""
        with self._client():
            pass

    def read(self) -> ByClient:
        """Every client's cursor; {} where Canal was never there."""
        with self._client() as client:
            contents = {number: _get(client, self._node(number)) for number in self._clients(client)}
        return {
            number: None if content is None else parsed(content, self._node(number))
            for number, content in contents.items()
        }

    def stored(self) -> Mapping[str, bytes]:
        """Each node's bytes."""
        with self._client() as client:
            return self._stored(client)

    def replace(self, before: Mapping[str, bytes], cursor: RawOffset | None) -> None:
        """Set every client's node, in one transaction."""
        with self._client() as client:
            if self._stored(client) != before:
                raise changed_meanwhile(self._where)
            nodes = {self._node(number) for number in (*self._clients(client), CLIENT)}
            self._put(client, dict.fromkeys(nodes, None if cursor is None else text(dict(cursor))))

    def put_back(self, before: Mapping[str, bytes]) -> None:
        """Set every node to its old bytes, and take away those that were not there."""
        with self._client() as client:
            self._put(client, {node: before.get(node) for node in {*before, *self._stored(client)}})

    def holder(self) -> str:
        """Which server runs the destination now, as it says in ZooKeeper; "" where none does, or none says so."""
        with self._client() as client:
            content = _get(client, f"{_ROOT}/{self.destination}/running")
        return str(parsed(content, self._where).get("address") or "unnamed") if content else ""

    def _put(self, client: KazooClient, contents: Mapping[str, bytes | None]) -> None:
        for node in contents:
            client.ensure_path(node.rpartition("/")[0])
        transaction = client.transaction()
        for node, content in contents.items():
            there = client.exists(node)
            if content is None and there:
                transaction.delete(node, there.version)
            elif content is not None and there:
                transaction.set_data(node, content, there.version)
            elif content is not None:
                transaction.create(node, content)
        if any(isinstance(answer, Exception) for answer in transaction.commit()):
            raise changed_meanwhile(self._where)

    def _stored(self, client: KazooClient) -> dict[str, bytes]:
        contents = {self._node(number): _get(client, self._node(number)) for number in self._clients(client)}
        return {node: content for node, content in contents.items() if content is not None}

    def _clients(self, client: KazooClient) -> tuple[int, ...]:
        place = f"{_ROOT}/{self.destination}"
        names = client.get_children(place) if client.exists(place) else []
        return tuple(sorted(number for name in names if (number := number_in(name)) is not None))

    def _node(self, number: int) -> str:
        return f"{_ROOT}/{self.destination}/{number}/cursor"

    @property
    def _where(self) -> str:
        return f"ZooKeeper {self.endpoint.host}, {_ROOT}/{self.destination}"

    @contextmanager
    def _client(self) -> Iterator[KazooClient]:
        """A session for a few calls."""
        with needs(EXTRA, where=self._where):
            from kazoo.client import KazooClient
            from kazoo.exceptions import KazooException
            from kazoo.handlers.threading import KazooTimeoutError
        login = [("digest", f"{self.endpoint.user}:{self.endpoint.password}")] if self.endpoint.user else None
        client = KazooClient(hosts=self.endpoint.host, timeout=self.endpoint.timeout, auth_data=login)
        try:
            client.start(timeout=self.endpoint.timeout)
            yield client
        except (KazooException, KazooTimeoutError) as error:
            raise ConnectorError(
                f"ZooKeeper did not do what was asked: {type(error).__name__} {error}".strip(),
                where=self._where,
                todo="Check the servers in the Canal connection's host, and the login's rights on these nodes.",
            ) from None
        finally:
            _end(client)


def _end(client: KazooClient) -> None:
    calls: tuple[Callable[[], object], ...] = (client.stop, client.close)
    for call in calls:
        call()


def _get(client: KazooClient, node: str) -> bytes | None:
    if not client.exists(node):
        return None
    content: bytes = client.get(node)[0]
    return content or None
