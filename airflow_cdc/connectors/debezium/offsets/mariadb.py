"""The offset value that Debezium's MariaDB connector stores: that of its MySQL connector, with MariaDB's GTIDs."""

from __future__ import annotations

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlOffset, stored, validate
from airflow_cdc.core.errors import OffsetRejectedError
from airflow_cdc.core.offset import StoredOffset
from airflow_cdc.core.position import JsonObject, Position
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.position import MariaDbPosition, mariadb_position
from airflow_cdc.sources.mysql.position import moved_in_files


class MariaDbCodec:
    """The offset that Debezium's MariaDB connector stores."""

    def read(self, raw: JsonObject, key: JsonObject) -> StoredOffset:
        """What a stored value means; MySQL's GTID sets in it are foreign here."""
        try:
            offset = MySqlOffset.from_value(raw)
        except OffsetRejectedError as error:
            return StoredOffset(raw, key, fault=str(error))
        position = MariaDbPosition(offset.file, offset.pos, offset.domains, offset.server_id, offset.event)
        return stored(raw, key, offset, position, foreign=str(offset.gtids or ""))

    def faults(self, raw: JsonObject) -> tuple[str, ...]:
        """Every fault of a value that is about to be written, as text; () when it is well formed."""
        return validate(raw)

    def at(self, position: Position, written: int | None) -> dict[str, object]:
        """The value that makes the connector start there; everything else is reset."""
        there = mariadb_position(position)
        return MySqlOffset(there.file, there.pos, None, written, domains=there.domains).to_value()

    def moved(self, before: JsonObject | None, after: JsonObject) -> str:
        """What a move from one stored value to another skips and repeats, in words. Raises OffsetRejectedError."""
        if before is None:
            return "there was no offset before"
        old, new = MySqlOffset.from_value(before), MySqlOffset.from_value(after)
        if old.domains is None or new.domains is None:
            return moved_in_files(old.position, new.position)
        return _moved_domains(old.domains, new.domains)


def _moved_domains(old: Domains, new: Domains) -> str:
    ways = (("skips", new - old), ("repeats", old - new))
    return "; ".join(f"{verb} {span} (at most {span.count} transactions)" for verb, span in ways if span) or (
        "the same transactions"
    )
