"""Error messages of RabbitMQ's server and clients, as a connector that writes to it reports them."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.error_texts import CUT, LOGIN_REFUSED, KnownText

TEXTS: Final[tuple[KnownText, ...]] = (
    KnownText(
        "TRANSPORT_MISCONFIGURED",
        131,
        r"NOT_FOUND - no (exchange|queue) '",
        "the exchange or the queue that the connector writes to does not exist; a channel that this has closed stays closed",
    ),
    KnownText(
        "TRANSPORT_MISCONFIGURED",
        132,
        r"PRECONDITION_FAILED - inequivalent arg ",
        "the connector declares its queue with other arguments than it has, so it cannot start",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        139,
        r"ACCESS_REFUSED - (Login was refused|access to (exchange|queue|vhost|topic))|NOT_ALLOWED - (access|vhost)",
        LOGIN_REFUSED,
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        196,
        r"CONNECTION_FORCED|AlreadyClosedException|ShutdownSignalException|delivery acknowledgement on channel \d+ timed out",
        CUT,
    ),
)
