"""`python -m tests.integration.wire_protobuf CLASSPATH` writes the recordings in Protobuf: by Confluent's converter, of recorded events.

No Maven repository has that converter. CLASSPATH is of its classes, built from its public source, and of what they need;
docs/evidence/decoding.md says how. It is given the Connect values of the recordings in JSON with schemas, as Connect's own
JsonConverter reads them. So nothing of the product is used, and no server is started.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from stack import fetch
from tests.paths import ROOT

WIRES: Final = ROOT / "tests" / "data" / "wires"
PROGRAM: Final = ROOT / "tests" / "integration" / "ConvertRecords.java"
CONVERTER: Final = "io.confluent.connect.protobuf.ProtobufConverter"
AS_SENT: Final = {"ignore.default.for.nullables": "true"}
# what is added to the name of a source → the recording that is written anew, and the converter's options
WANTED: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "protobuf-default": ("json", {}),
    "protobuf-optional": ("json", {"optional.for.nullables": "true", **AS_SENT}),
    "protobuf-wrapper": ("json", {"wrapper.for.nullables": "true", **AS_SENT}),
    "flat-protobuf": ("flat-nulls", {"optional.for.nullables": "true", **AS_SENT}),
}
# a column whose name Protobuf does not allow
HIDDEN: Final = "sep`'\"|"


def legal(schema: Any) -> Any:
    """A schema block whose names Protobuf allows, as `schema.name.adjustment.mode=avro` makes them."""
    if isinstance(schema, list):
        return [legal(one) for one in schema if not (isinstance(one, dict) and one.get("field") == HIDDEN)]
    if not isinstance(schema, dict):
        return schema
    named = {"name": schema["name"].replace("-", "_")} if "name" in schema else {}
    return {key: legal(value) for key, value in schema.items()} | named


def as_connect(data: bytes) -> bytes:
    """JSON with its schema, in a form that Protobuf can carry."""
    both = json.loads(data)
    payload = both["payload"]
    for row in (payload, payload.get("before"), payload.get("after")):
        if row:
            row.pop(HIDDEN, None)
    return json.dumps({"schema": legal(both["schema"]), "payload": payload}).encode()


def sides(record: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """The parts of a record that have a value."""
    for side in ("key", "value"):
        data = None if record[side] is None else base64.b64decode(record[side])
        if data is not None and json.loads(data) is not None:
            yield side, data


def convert(classpath: str, classes: str, recording: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, Any]:
    """The recording as the converter writes it, without records that it fails at."""
    places, lines = [], []
    for table, records in recording["records"].items():
        for at, record in enumerate(records):
            for side, data in sides(record):
                places.append((table, at, side))
                lines.append(f"wires.{table}\t{side}\t{base64.b64encode(as_connect(data)).decode()}")
    argv = [fetch.java(), "-Xmx500m", "-cp", os.pathsep.join((classes, classpath)), "ConvertRecords"]
    argv += [f"{key}={value}" for key, value in options.items()]
    done = subprocess.run(argv, input="\n".join(lines), capture_output=True, text=True, check=True, timeout=300)
    answers = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    converted = dict(zip(places, (one for one in answers if one[0] != "schema"), strict=True))
    texts = {f"contentId:{one[1]}": _answer(one) for one in answers if one[0] == "schema"}
    records = {
        table: [made for at, record in enumerate(own) if (made := _record(table, at, record, converted)) is not None]
        for table, own in recording["records"].items()
    }
    return {"schemas": texts, "records": records}


def _answer(line: list[str]) -> dict[str, str]:
    if line[3] != "[]":
        raise AssertionError(f"schema {line[1]} refers to others: {line[3]}")
    return {"schemaType": "PROTOBUF", "schema": base64.b64decode(line[2]).decode()}


def _record(table: str, at: int, record: Mapping[str, Any], converted: Mapping[Any, list[str]]) -> Any:
    parts = {side: converted.get((table, at, side)) for side in ("key", "value")}
    if any(one is not None and one[0] == "failed" for one in parts.values()):
        print(f"{table} {record['offset']}: {[one and one[1][:40] for one in parts.values()]}")
        return None
    return {**record, **{side: None if one is None else one[1] for side, one in parts.items()}, "headers": []}


def settings_of(recording: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, str]:
    """The connector's settings, were this its converter."""
    kept = {name: value for name, value in recording["settings"].items() if ".converter" not in name}
    for side in ("key", "value"):
        kept |= {f"{side}.converter": CONVERTER, f"{side}.converter.schema.registry.url": "***"}
        kept |= {f"{side}.converter.{name}": value for name, value in options.items()}
    return {**kept, "schema.name.adjustment.mode": "avro", "column.exclude.list": r"wires\.every\.sep.*"}


def main(classpath: str) -> None:
    """Write all of them."""
    with tempfile.TemporaryDirectory() as classes:
        compiler = Path(fetch.java()).with_name("javac")
        subprocess.run([str(compiler), "-cp", classpath, "-d", classes, str(PROGRAM)], check=True, timeout=300)
        for source in ("mysql", "postgres"):
            for name, (of, options) in WANTED.items():
                recording = json.loads(gzip.decompress((WIRES / f"{source}-{of}.json.gz").read_bytes()))
                content = {
                    "versions": {**recording["versions"], "confluent": "8.5.0-0, source of 2026-08-22"},
                    "settings": settings_of(recording, options),
                    **convert(classpath, classes, recording, options),
                    "rows": recording["rows"],
                }
                raw = json.dumps(content, ensure_ascii=False, sort_keys=True).encode()
                (WIRES / f"{source}-{name}.json.gz").write_bytes(gzip.compress(raw, mtime=0))
                print(source, name, {table: len(own) for table, own in content["records"].items()})


if __name__ == "__main__":
    main(sys.argv[1])
