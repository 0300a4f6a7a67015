"""The errors with which PostgreSQL refuses a connector, as connectors report them."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.error_texts import CUT, LOGIN_REFUSED, KnownText

TEXTS: Final[tuple[KnownText, ...]] = (
    KnownText(
        "SLOT_ACTIVE_ELSEWHERE",
        11,
        r"replication slot \"[^\"]*\" is active for PID",
        "another reader uses the slot: two connectors with one slot.name take each other's changes",
    ),
    KnownText(
        "MAX_WAL_SENDERS",
        12,
        r"number of requested standby connections exceeds max_wal_senders|all replication slots are in use",
        "the server has no WAL sender, or no slot, to spare",
    ),
    KnownText(
        "WAL_LEVEL",
        13,
        r"logical decoding requires \"?wal_level\"? >= \"?logical",
        "the server's log does not hold what logical decoding needs",
    ),
    KnownText(
        "SLOT_INVALIDATED",
        14,
        r"can no longer (access|get changes from) replication slot|slot has been invalidated|"
        r"invalidating obsolete replication slot|Unable to obtain valid replication slot",
        "the server gave up the log that the slot needed",
    ),
    KnownText(
        "SLOT_MISSING",
        15,
        r"replication slot \"[^\"]*\" does not exist",
        "the connector's slot is not on the server any more",
    ),
    KnownText(
        "LSN_BEFORE_SLOT",
        16,
        r"cannot advance replication slot to \S+, minimum is",
        "a replication slot only moves forward: what was asked for lies before it and is gone",
    ),
    KnownText(
        "SLOT_MISSING",
        17,
        r"trying to read (change stream|redo log) starting at PostgresOffsetContext[^\n]{0,8000}no longer available",
        "the slot is missing, or no longer has the stored place: which of them only the server can say",
    ),
    KnownText(
        "PUBLICATION_MISSING",
        18,
        r"publication \"[^\"]*\" does not exist|Publication autocreation is disabled",
        "the connector's publication is not there: changes are not sent, and some may have been skipped",
    ),
    KnownText(
        "PUBLICATION_MISSING",
        19,
        r"not present among LSNs seen in the location phase",
        "after its publication was missing for a while the connector cannot find its place; going on skips rows",
    ),
    KnownText(
        "REPLICA_IDENTITY",
        21,
        r"does not have a replica identity and publishes (updates|deletes)",
        "the server refuses the application's own UPDATE or DELETE: the table has no replica identity",
    ),
    KnownText("CONNECTOR_FAILED", 142, r"password authentication failed|no pg_hba\.conf entry", LOGIN_REFUSED),
    KnownText(
        "CONNECTOR_FAILED",
        151,
        r"permission denied (to (start WAL sender|use replication slots)|for (table|schema|database))",
        "the connector's role lacks a right",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        193,
        r"Database connection failed when (reading from|writing to) copy|terminating connection due to administrator command"
        r"|the database system is (starting up|shutting down)|remaining connection slots are reserved|too many clients",
        CUT,
    ),
)
