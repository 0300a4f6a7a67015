"""Error messages of Kafka's brokers and clients, as a connector that writes to them reports them."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.error_texts import CUT, KnownText

TEXTS: Final[tuple[KnownText, ...]] = (
    KnownText(
        "TRANSPORT_MISCONFIGURED",
        130,
        r"One or more records have been rejected|Compacted topic cannot accept message without key",
        "a table without a key writes into a compacted topic, which refuses messages without a key",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        192,
        r"TimeoutException|NotLeaderOrFollowerException|NetworkException|DisconnectException",
        CUT,
    ),
)
