"""The errors with which MariaDB refuses a connector: its own texts about GTIDs, MySQL's texts for the rest."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.error_texts import KnownText
from airflow_cdc.sources.mysql.error_texts import SHARED

TEXTS: Final[tuple[KnownText, ...]] = (
    *SHARED,
    KnownText(
        "GTID_PURGED",
        51,
        r"could not find GTID state requested by (slave|replica)",
        "transactions that were not read yet were purged",
        says="Could not find GTID state requested by slave in any binlog files",
    ),
    KnownText(
        "GTID_NOT_CONTAINED",
        61,
        r"requested to start from GTID [\d-]+, which is not in the (master|source|primary)'s binlog|"
        r"binlog on the (master|source|primary) is missing the GTID [\d-]+ requested",
        "the stored place names a transaction that this server never had, or lost",
        says="requested to start from GTID 0-1-100, which is not in the master's binlog",
    ),
)
