"""What the management interface says of a virtual host's queues."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

import httpx

from airflow_cdc.core.errors import TransportError
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint
from airflow_cdc.transports.rabbitmq.queue import Binding, Queue, queue_of, settings_of

_MISSING: Final = 404
_NO_ACCESS: Final = (401, 403)


class Management:
    """The management interface at an endpoint. Raises TransportError."""

    def __init__(self, endpoint: RabbitMqEndpoint) -> None:
        self._endpoint = endpoint
        self._vhost = quote(endpoint.vhost, safe="")

    def queue(self, name: str) -> Queue | None:
        """The queue; None if there is none."""
        with self._client() as client:
            place = f"queues/{self._vhost}/{quote(name, safe='')}"
            found = self._get(client, place)
            if found is None:
                return None
            bindings = self._get(client, f"{place}/bindings") or ()
            kinds = {exchange: self._exchange_kind(client, exchange) for exchange in {b["source"] for b in bindings}}
            led = tuple(Binding(b["source"], b["routing_key"], kinds[b["source"]]) for b in bindings)
            return queue_of(found, led, self._dead(client, settings_of(found)))

    def names(self) -> list[str]:
        """The names of all queues of the virtual host."""
        with self._client() as client:
            return [one["name"] for one in self._get(client, f"queues/{self._vhost}?columns=name") or ()]

    def _dead(self, client: httpx.Client, settings: Mapping[str, Any]) -> dict[str, int]:
        """The queues bound to a dead-letter exchange, and how many messages are in them."""
        exchange, key = settings.get("dead-letter-exchange"), settings.get("dead-letter-routing-key")
        if exchange is None:
            return {}
        if exchange:
            place = f"exchanges/{self._vhost}/{quote(exchange, safe='')}/bindings/source"
            names = {one["destination"] for one in self._get(client, place) or () if one["destination_type"] == "queue"}
        else:
            names = {key} if key else set()
        queues = {name: self._get(client, f"queues/{self._vhost}/{quote(name, safe='')}") for name in sorted(names)}
        return {name: int(queue.get("messages") or 0) for name, queue in queues.items() if queue}

    def _exchange_kind(self, client: httpx.Client, name: str) -> str:
        found = self._get(client, f"exchanges/{self._vhost}/{quote(name, safe='')}") if name else {"type": "direct"}
        return str(found["type"]) if found else ""

    def _get(self, client: httpx.Client, path: str) -> Any:
        answer = client.get(path)
        if answer.status_code == _MISSING:
            return None
        if answer.status_code in _NO_ACCESS:
            raise TransportError(
                f"the management interface refuses the user: HTTP {answer.status_code}",
                where=self._where,
                todo="Correct the login, and give the user the tag `management`.",
            )
        answer.raise_for_status()
        return answer.json()

    @contextmanager
    def _client(self) -> Iterator[httpx.Client]:
        point = self._endpoint
        verify = ssl.create_default_context(cafile=point.ca) if point.ca else True
        try:
            with httpx.Client(
                base_url=f"{point.api}/api/", auth=(point.user, point.password), timeout=point.timeout, verify=verify
            ) as client:
                yield client
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
            raise TransportError(
                f"the management interface does not answer: {str(error)[:200] or type(error).__name__}",
                where=self._where,
                todo="Enable the plugin rabbitmq_management, and correct `management` of the RabbitMQ connection.",
            ) from None

    @property
    def _where(self) -> str:
        return f"{self._endpoint.where}, {self._endpoint.api}"
