"""What the management interface says of a virtual host's queues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import quote

import httpx

from airflow_cdc.answers import ask, explained, parsed
from airflow_cdc.core.errors import TransportError
from airflow_cdc.core.text import first_named
from airflow_cdc.core.tls import trusting_nobody
from airflow_cdc.fields import Fields
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint
from airflow_cdc.transports.rabbitmq.queue import Binding, Queue, queue_of, settings_of
from airflow_cdc.transports.rabbitmq.wire import TLS_TODOS

_MISSING: Final = 404
_NO_ACCESS: Final = (401, 403)
_CHECK: Final = (
    "Enable the plugin rabbitmq_management, and correct `management` (http or https, port) of the RabbitMQ connection."
)


@explained(TransportError, "RabbitMQ")
class Management:
    """The management interface at an endpoint. Raises TransportError."""

    def __init__(self, endpoint: RabbitMqEndpoint) -> None:
        self._endpoint = endpoint
        self._vhost = quote(endpoint.vhost, safe="")

    def queue(self, name: str) -> Queue | None:
        """The queue; None if there is none."""
        with self._client() as client:
            place = f"queues/{self._vhost}/{quote(name, safe='')}"
            value = self._one(client, place)
            if value is None:
                self._need_access(client)
                return None
            bindings = self._all(client, f"{place}/bindings")
            kinds = {
                exchange: self._exchange_kind(client, exchange) for exchange in {b.text("source") for b in bindings}
            }
            routes = tuple(Binding(b.text("source"), b.text("routing_key"), kinds[b.text("source")]) for b in bindings)
            return queue_of(value, routes, self._dead(client, settings_of(value)))

    def names(self) -> list[str]:
        """The names of all queues of the virtual host."""
        with self._client() as client:
            names = [one.text("name") for one in self._all(client, f"queues/{self._vhost}?columns=name")]
            if not names:
                self._need_access(client)
            return names

    def now_ms(self) -> int | None:
        """The server's own clock (epoch ms, to the second); None if its answers have no Date."""
        with self._client() as client:
            said = ask(client, "GET", "whoami", within=self._endpoint.timeout).headers.get("date")
        return int(parsedate_to_datetime(said).timestamp() * 1000) if said else None

    def _need_access(self, client: httpx.Client) -> None:
        """A virtual host without permissions for the user looks like an empty one. Raises TransportError there."""
        names = {one["name"] for one in self._all(client, "vhosts")}
        if self._endpoint.vhost not in names:
            raise TransportError(
                f"user {self._endpoint.user} may see nothing in virtual host {self._endpoint.vhost}",
                where=self.where,
                todo="Give the user of the RabbitMQ connection permissions in that virtual host, or correct its name (Schema).",
            )

    def _dead(self, client: httpx.Client, settings: Fields) -> dict[str, int]:
        """The queues bound to a dead-letter exchange, and how many messages are in them."""
        if settings.get("dead-letter-exchange") is None:
            return {}
        exchange, key = settings.text("dead-letter-exchange"), settings.text("dead-letter-routing-key", "")
        if exchange:
            place = f"exchanges/{self._vhost}/{quote(exchange, safe='')}/bindings/source"
            names = {one.text("destination") for one in self._all(client, place) if one["destination_type"] == "queue"}
        else:
            names = {key} if key else set()
        queues = {name: self._one(client, f"queues/{self._vhost}/{quote(name, safe='')}") for name in sorted(names)}
        return {
            name: queue.number("messages") if queue.get("messages") else 0 for name, queue in queues.items() if queue
        }

    def _exchange_kind(self, client: httpx.Client, name: str) -> str:
        exchange = self._one(client, f"exchanges/{self._vhost}/{quote(name, safe='')}") if name else {"type": "direct"}
        return str(exchange["type"]) if exchange else ""

    def _one(self, client: httpx.Client, path: str) -> Fields | None:
        answer = self._get(client, path)
        return None if answer is None else Fields.of(answer)

    def _all(self, client: httpx.Client, path: str) -> list[Fields]:
        return Fields(answer=self._get(client, path)).each("answer")

    def _get(self, client: httpx.Client, path: str) -> object:
        answer = ask(client, "GET", path, within=self._endpoint.timeout)
        if answer.status_code == _MISSING:
            return None
        if answer.status_code in _NO_ACCESS:
            raise TransportError(
                f"the management interface refuses the user: {_refusal(answer)}",
                where=self.where,
                todo="Check login and password of the RabbitMQ connection, and give that user the tag `management` and"
                " permissions in the virtual host.",
            )
        answer.raise_for_status()
        return parsed(answer)

    @contextmanager
    def _client(self) -> Iterator[httpx.Client]:
        point = self._endpoint
        login = (point.user, point.password)
        verify = point.tls_context(point.where) if point.api.startswith("https:") else trusting_nobody()
        try:
            with httpx.Client(base_url=f"{point.api}/api/", auth=login, timeout=point.timeout, verify=verify) as client:
                yield client
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
            reason = str(error)[:200] or type(error).__name__
            raise TransportError(
                f"the management interface does not answer: {reason}",
                where=self.where,
                todo=first_named(TLS_TODOS, reason, _CHECK),
            ) from None

    @property
    def where(self) -> str:
        """How messages name it."""
        return f"{self._endpoint.where}, {self._endpoint.api}"


def _refusal(answer: httpx.Response) -> str:
    """The status and the server's own reason, such as `Not management user`."""
    try:
        reason = str(parsed(answer)["reason"])
    except (ValueError, LookupError, TypeError):
        reason = ""
    return f"HTTP {answer.status_code} {reason}".strip()
