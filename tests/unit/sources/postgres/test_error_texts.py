"""What PostgreSQL prints to a connector that it no longer serves, in the languages of its servers, and what it must be explained as."""

from __future__ import annotations

import pytest

from airflow_cdc.core.error_texts import match
from airflow_cdc.sources.postgres.error_texts import TEXTS
from tests.unit.explained import Said, are_all_met, are_on_the_page, have_ranks_of_their_own, is_explained

LINES = (
    Said("SLOT_ACTIVE_ELSEWHERE", "another reader uses the slot", 'ERROR: replication slot "shop" is active for PID 4711', ("CONNECTOR_FAILED_TRANSIENT",), "pg_stat_replication"),
    Said("MAX_WAL_SENDERS", "no WAL sender, or no slot", "org.postgresql.util.PSQLException: ERROR: all replication slots are in use"),
    Said("WAL_LEVEL", "what logical decoding needs", "ERROR: logical decoding requires wal_level >= logical"),
    Said("SLOT_INVALIDATED", "gave up the log", "ERROR: requested WAL segment 000000010000000A000000C3 has already been removed"),
    Said("SLOT_INVALIDATED", "gave up the log", "Unable to obtain valid replication slot. Make sure there are no long-running transactions running in parallel as they may hinder the allocation of the replication slot when starting this connector", ("CONNECTOR_FAILED_TRANSIENT",), "xact_start"),
    Said("SLOT_MISSING", "is not on the server any more", 'ERROR: replication slot "shop" does not exist'),
    Said("LSN_BEFORE_SLOT", "only moves forward", "ERROR: cannot advance replication slot to 1F/83FD7F0, minimum is 1F/9900110"),
    Said("SLOT_MISSING", "which of them only the server can say", "The connector is trying to read redo log starting at PostgresOffsetContext [sourceInfo=source_info[lsn=LSN{1F/83FD7F0}], lastSnapshotRecord=false], but this is no longer available on the server.", ("SLOT_INVALIDATED", "LSN_BEHIND_RESTART"), "restart_lsn"),
    Said("PUBLICATION_MISSING", "some may have been skipped", 'ERROR: publication "shop" does not exist'),
    Said("PUBLICATION_MISSING", "cannot find its place", "Message with LSN 'LSN{1F/83FD7F0}' not present among LSNs seen in the location phase 'WalPositionLocator'"),
    Said("REPLICA_IDENTITY", "the application's own UPDATE or DELETE", 'ERROR: cannot delete from table "orders" because it does not have a replica identity and publishes deletes'),
    Said("CONNECTOR_FAILED", "may not create the publication", "ERROR: must be owner of table orders"),
    Said("CONNECTOR_FAILED", "role lacks a right", "ERROR: must be superuser or replication role to use replication slots"),
    Said("SOURCE_MISCONFIGURED", "its output plugin", 'ERROR: replication slot "shop" was not created in this database'),
    Said("CONNECTOR_FAILED", "a standby can from PostgreSQL 16 on", "ERROR: logical decoding cannot be used while in recovery"),
    Said("SLOT_ACTIVE_ELSEWHERE", "the slot's name is used twice", 'ERROR: replication slot "debezium" already exists', ("SOURCE_MISCONFIGURED",), "pg_replication_slots"),
    Said("CONNECTOR_FAILED", "refuses the connector's login", 'FATAL: password authentication failed for user "cdc"'),
    Said("CONNECTOR_FAILED", "cannot create its publication", 'ERROR: cannot add relation "v_orders" to publication'),
    Said("CONNECTOR_FAILED", "its own log says why", "ERROR: invalid memory alloc request size 1243650064"),
    Said("CONNECTOR_FAILED_TRANSIENT", "a connection was cut", "FATAL: terminating connection due to administrator command"),
)  # fmt: skip
# of a server whose lc_messages is not English
TRANSLATED = (
    ("SLOT_ACTIVE_ELSEWHERE", 'ERROR:  レプリケーションスロット"shop"はPID4711で使用中です'),
    ("SLOT_MISSING", "ERREUR:  le slot de réplication « shop » n'existe pas"),
    ("SLOT_MISSING", "FEHLER:  Replikations-Slot »shop« existiert nicht"),
    ("PUBLICATION_MISSING", "FEHLER:  Publikation »dbz_publication« existiert nicht"),
    ("SLOT_INVALIDATED", "FEHLER:  angefordertes WAL-Segment 000000010000000A000000C3 wurde bereits entfernt"),
    ("CONNECTOR_FAILED", "FATAL:  Passwort-Authentifizierung für Benutzer »cdc« fehlgeschlagen"),
    ("CONNECTOR_FAILED_TRANSIENT", "FATAL:  Verbindung wird abgebrochen aufgrund von Anweisung des Administrators"),
)  # fmt: skip
LOOKED_FOR = (
    "is active for PID",
    "all replication slots are in use",
    "requires wal_level >= logical",
    "has already been removed",
    "Unable to obtain valid replication slot",
    'slot "shop" does not exist',
    "cannot advance replication slot",
    "starting at PostgresOffsetContext",
    'publication "shop" does not exist',
    "does not have a replica identity",
    'slot "shop" already exists',
)


@pytest.mark.parametrize("said", LINES, ids=[one.line[:70] for one in LINES])
def test_what_postgresql_prints_is_explained(said: Said) -> None:
    is_explained(said)


@pytest.mark.parametrize(("code", "line"), TRANSLATED)
def test_it_is_explained_in_other_languages_too(code: str, line: str) -> None:
    explained = match(TEXTS, line)
    assert explained is not None
    assert explained.code == code


def test_each_row_is_needed_and_its_place_is_decided() -> None:
    are_all_met(TEXTS, LINES)
    have_ranks_of_their_own(TEXTS)


def test_what_people_look_for_is_among_first_aid() -> None:
    are_on_the_page(TEXTS, LOOKED_FOR)
