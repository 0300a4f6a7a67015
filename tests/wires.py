"""Records of real connectors in each wire format (tests/data/wires; written by tests/integration/wire_records.py)."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.paths import ROOT

FOLDER = ROOT / "tests" / "data" / "wires"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One record of a topic, as it came."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """What one connector sent.

    Attributes:
        settings: its configuration, less addresses and passwords.
        schemas: kind of id and id, as `contentId:7` → what the registry answered.
        records: table → its topic's records, in order.
        rows: table → its rows at the end, each value as the source itself writes it.
        definitions: table → its definition, as the product reads it; {} where it was not kept.
    """

    settings: Mapping[str, str]
    schemas: Mapping[str, Any]
    records: Mapping[str, Sequence[Recorded]]
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    definitions: Mapping[str, str]


def names(part: str = "") -> list[str]:
    """The recordings with this in their names, such as `mysql-avro`."""
    return sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob(f"*{part}*.json.gz"))


@cache
def recording(name: str) -> Recording:
    """The recording of this name."""
    raw = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    records = {table: tuple(map(_record, own)) for table, own in raw["records"].items()}
    return Recording(raw["settings"], raw["schemas"], records, raw["rows"], raw.get("definitions", {}))


def payload(data: bytes | None) -> Any:
    """The JSON in a key or a value, without the schema around it."""
    value = None if data is None else json.loads(data)
    return value["payload"] if isinstance(value, dict) and "payload" in value else value


def _record(raw: Mapping[str, Any]) -> Recorded:
    headers = tuple((name, _bytes(data) or b"") for name, data in raw["headers"])
    return Recorded(0, raw["offset"], _bytes(raw["key"]), _bytes(raw["value"]), headers)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
