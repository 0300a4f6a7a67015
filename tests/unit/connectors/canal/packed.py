"""Flat JSON, packed as a Canal server with `canal.mq.flatMessage=false` would send it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_cdc.connectors.canal.events import packets

NUMBERS = {name: number for number, name in packets._TYPES.items()}
BEGIN, ROWS, END = 1, 2, 3


def packed(*flats: Mapping[str, Any], kind: int = ROWS, compression: int = 1, packet: int = 7) -> bytes:
    """One record with an entry per flat record, between the begin and the end of a transaction."""
    make = packets._classes()
    entries = [make["Entry"](kind=BEGIN, content=b"\xff")]
    for flat in flats:
        named = {"schema": flat["database"], "table": flat["table"], "time": flat["es"], "gtid": flat["gtid"]}
        entries.append(make["Entry"](header=make["Header"](**named), kind=kind, content=_change(flat)))
    entries.append(make["Entry"](kind=END, content=b"\xff"))
    body = make["Batch"](entries=entries).SerializeToString()
    whole: bytes = make["Packet"](type=packet, compression=compression, body=body).SerializeToString()
    return whole


def _change(flat: Mapping[str, Any]) -> bytes:
    make, kind = packets._classes(), flat["type"]
    rows = []
    for at, now in enumerate(flat["data"] or ()):
        was = (flat["old"] or [None] * (at + 1))[at]
        before = now if kind == "DELETE" else {**now, **(was or {})} if kind == "UPDATE" else {}
        after = {} if kind == "DELETE" else now
        rows.append(make["Row"](before=_columns(before), after=_columns(after, was or {})))
    is_ddl = flat["isDdl"] or None
    change = make["Change"](type=NUMBERS.get(kind, 99), is_ddl=is_ddl, sql=flat.get("sql", ""), rows=rows)
    data: bytes = change.SerializeToString()
    return data


def _columns(image: Mapping[str, str | None], changed: Mapping[str, Any] | None = None) -> list[Any]:
    make = packets._classes()["Column"]
    return [
        make(name=name, value=value, is_null=value is None, updated=name in (changed or {}))
        for name, value in image.items()
    ]
