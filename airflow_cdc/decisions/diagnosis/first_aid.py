"""What a problem that an error text names means for the rows: whether anything is lost already, before anybody acts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from airflow_cdc.core.error_texts import KnownText

_GAP: Final = "Yes: the changes in the gap, unless a replica still has them"
_SLOT: Final = "Yes: the changes that the slot kept"
_SKIPPED: Final = "Perhaps: what was skipped is reported nowhere, so compare"
_OTHER: Final = "Perhaps: this server's history differs from what was read"
_WAITS: Final = "Not yet: the log waits, until it is purged"
_WORDS: Final = "Not yet, but events can't be decoded"

LOST: Final[dict[str, str]] = {
    "BINLOG_PURGED": _GAP,
    "GTID_PURGED": _GAP,
    "POSITION_PAST_END": _OTHER,
    "POSITION_AHEAD": _OTHER,
    "POSITION_MID_EVENT": "Perhaps: what follows in that file can't be read",
    "GTID_NOT_CONTAINED": _OTHER,
    "GTID_MODE_MISMATCH": _SKIPPED,
    "SOURCE_CHANGED": _OTHER,
    "SLOT_MISSING": _SLOT,
    "SLOT_INVALIDATED": _SLOT,
    "LSN_BEFORE_SLOT": _SKIPPED,
    "LSN_BEHIND_RESTART": _SLOT,
    "PUBLICATION_MISSING": _SKIPPED,
    "SLOT_ACTIVE_ELSEWHERE": "Perhaps: another reader may have taken changes",
    "SELF_HEALED": "Yes: rows deleted in the gap stay in your sink",
    "DELETES_DROPPED": "Yes: rows deleted at the source stay in every copy",
    "SNAPSHOT_INTERRUPTED": "The first copy is incomplete",
    "OFFSET_MISSING": _SKIPPED,
    "SCHEMA_HISTORY_MISSING": _WORDS,
    "SOURCE_MISCONFIGURED": "Perhaps: changes that were not logged as rows",
    "CONNECTOR_MISCONFIGURED": _SKIPPED,
    "TRANSPORT_GAP": "Yes: events that no reader had applied",
    "CONNECTOR_FAILED": _WAITS,
    "CONNECTOR_FAILED_TRANSIENT": _WAITS,
    "DUPLICATE_SERVER_ID": _WAITS,
    "MAX_WAL_SENDERS": _WAITS,
    "WAL_LEVEL": _WAITS,
    "REPLICA_IDENTITY": _WAITS,
    "TRANSPORT_MISCONFIGURED": _WAITS,
    "SINK_CONNECTOR_FAILED": "Not yet: the topics keep what the sink lacks",
}


def rows(texts: Iterable[KnownText]) -> Iterator[tuple[str, str, str]]:
    """(words, code, is anything lost?) of the texts by which people look, the losses first."""
    listed = sorted((text for text in texts if text.says), key=lambda text: (_order(text.code), text.rank))
    return ((text.says, text.code, LOST[text.code]) for text in listed)


def _order(code: str) -> int:
    return ("Yes", "Per", "The", "Not").index(LOST[code][:3])
