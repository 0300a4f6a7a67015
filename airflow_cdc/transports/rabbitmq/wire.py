"""Connections to RabbitMQ with bounded timeouts. Their failures become TransportErrors without secrets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import pika
from pika.exceptions import AMQPError

from airflow_cdc.core.errors import TransportError
from airflow_cdc.core.text import first_named
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint

_NAME: Final = "airflow-provider-cdc"
# none is sent while what was read is worked on, and after two of them the server cuts the connection
_HEARTBEAT_S: Final = 600
_CHECK: Final = "Check host and port of the RabbitMQ connection, and that the server answers there."
# words in a reason → what to do; the first match counts
TLS_TODOS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (
        ("CERTIFICATE_VERIFY_FAILED",),
        "Give the authority's file as ca_file of the RabbitMQ connection; its host must be a name in the certificate.",
    ),
    (
        ("SSL", "CERTIFICATE", "TLS"),
        "Check `tls`, port, and the client certificate (cert_file, key_file) of the RabbitMQ connection.",
    ),
)
# what a server that has just started answers until its queues are ready
STARTING: Final = ("INTERNAL_ERROR", "Stream not found")
_TODOS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("Login was refused",), "Check login and password of the RabbitMQ connection."),
    (("access to vhost",), "Give the user of the RabbitMQ connection permissions in that virtual host."),
    (
        ("ACCESS_REFUSED", "access to"),
        "Give the user of the RabbitMQ connection the permission that is named; the page Privileges lists what is needed.",
    ),
    (("NOT_FOUND",), "Check the queue's name and the virtual host."),
    (STARTING, "Try again: a server that has just started answers so until its queues are ready."),
    (("vhost",), "Correct the virtual host (Schema) of the RabbitMQ connection."),
    *TLS_TODOS,
    (("indicated EOF",), "Check `tls` and port of the RabbitMQ connection, and that the server answers there."),
)


@dataclass(frozen=True, slots=True)
class Record:
    """A message of a stream queue, as bytes. Such a queue has one partition, and its messages have no key.

    `is_mark`: one of our own, which is no event.
    """

    offset: int
    value: bytes | None
    partition: int = 0
    key: bytes | None = None
    is_mark: bool = False


@contextmanager
def connected(endpoint: RabbitMqEndpoint) -> Iterator[pika.BlockingConnection]:
    """A pika connection, closed at the end. Raises TransportError, also for what fails while it is used."""
    # it logs each failed connection with its own trace
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    with explaining(endpoint.where, "reach the server"):
        connection = pika.BlockingConnection(_parameters(endpoint))
    try:
        with explaining(endpoint.where, "read the queue"):
            yield connection
    finally:
        with suppress(AMQPError, OSError):
            connection.close()


def _parameters(endpoint: RabbitMqEndpoint) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(
        endpoint.host,
        endpoint.port,
        endpoint.vhost,
        pika.PlainCredentials(endpoint.user, endpoint.password),
        ssl_options=_tls(endpoint),
        heartbeat=_HEARTBEAT_S,
        socket_timeout=endpoint.timeout,
        stack_timeout=endpoint.timeout,
        blocked_connection_timeout=endpoint.timeout,
        client_properties={"connection_name": _NAME},
    )


def _tls(endpoint: RabbitMqEndpoint) -> pika.SSLOptions | None:
    if not endpoint.tls:
        return None
    return pika.SSLOptions(endpoint.tls_context(endpoint.where), endpoint.host)


@contextmanager
def explaining(where: str, doing: str) -> Iterator[None]:
    """Turn pika's failures into TransportErrors that say what was tried."""
    try:
        yield
    except (AMQPError, OSError) as error:
        reason = _reason(error)
        todo = first_named(_TODOS, reason, _CHECK)
        raise TransportError(f"could not {doing}: {reason[:300]}", where=where, todo=todo) from None


def _reason(error: BaseException) -> str:
    """The server's own words; pika wraps what happened while a connection is opened."""
    inner = next((one for one in error.args if isinstance(one, BaseException)), None)
    if inner is not None:
        return _reason(inner)
    cause: object = getattr(error, "exception", None)
    if isinstance(cause, BaseException):
        return _reason(cause)
    causes: Iterable[BaseException] = getattr(error, "exceptions", ())
    text = getattr(error, "reply_text", "") or str(error).strip()
    return str(text) or next((_reason(one) for one in causes), type(error).__name__)
