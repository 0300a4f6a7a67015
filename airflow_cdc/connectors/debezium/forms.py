"""How a record is written, told by its bytes: a converter that its connector does not name is its worker's, which nobody can ask."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from airflow_cdc.connectors.debezium.plugin_names import JSON

SIDES: Final = ("key", "value")
# headers in which registries' converters write a schema's id, by side
_ID_HEADERS: Final = {side: re.compile(rf"apicurio\.{side}\.\w+|__{side}_schema_id") for side in SIDES}
# fields of an object → what it is; the first that all are there counts
_OBJECTS: Final = (
    ({"op", "source"}, "a change event as JSON"),
    ({"ddl"}, "a schema change as JSON"),
    ({"tableChanges"}, "a schema change as JSON"),
    ({"specversion", "data"}, "a CloudEvent"),
)
_ID_BYTES: Final = 5
ROW: Final = "a row without its envelope (flattened, or of an outbox)"
NULL: Final = "JSON null, as of a flattened delete"
_FOLLOWED: Final = frozenset(what for _, what in _OBJECTS[:3])


class Form(NamedTuple):
    """How a key or a value is written: in words, whether as JSON, and whether it can be followed."""

    what: str
    is_json: bool
    is_followed: bool


def form_of_value(data: bytes, headers: Sequence[str] = ()) -> Form:
    """How a value is written. Case: b'Struct{after=Struct{id=1}}' is what Connect's StringConverter makes of an event."""
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError):  # also what is not UTF-8
        return Form(_foreign(data, headers, "value"), is_json=False, is_followed=False)
    if value is None or (_is_wrapped(value) and value["payload"] is None):
        return Form(NULL, is_json=True, is_followed=False)
    if not isinstance(value, dict):
        return Form("JSON that is no object", is_json=True, is_followed=False)
    body, around = (value["payload"], ", in a schema block") if _is_wrapped(value) else (value, "")
    what = _object(body) if isinstance(body, dict) else "JSON that is no object"
    return Form(f"{what}{around}", is_json=True, is_followed=what in _FOLLOWED)


def form_of_key(data: bytes, headers: Sequence[str] = ()) -> Form:
    """How a key is written: a JSON object can be followed."""
    try:
        is_object = isinstance(json.loads(data.decode()), dict)
    except (ValueError, RecursionError):
        return Form(_foreign(data, headers, "key"), is_json=False, is_followed=False)
    return Form("JSON" if is_object else "JSON that is no object", is_json=True, is_followed=is_object)


def _is_wrapped(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {"schema", "payload"}


def _object(body: Mapping[str, object]) -> str:
    named = (what for fields, what in _OBJECTS if fields <= body.keys())
    return next(named, ROW)


def _foreign(data: bytes, headers: Sequence[str], side: str) -> str:
    """What wrote bytes that are not JSON."""
    if any(_ID_HEADERS[side].fullmatch(name) for name in headers):
        return "a schema id in its headers, as of Avro, Protobuf or JSON Schema with a registry"
    if data[:1] == b"\0" and len(data) > _ID_BYTES:
        return "a magic byte and a schema id, as of Avro, Protobuf or JSON Schema with a registry"
    if data.startswith(b"Struct{"):
        return "text as of Connect's StringConverter (Struct{…})"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "bytes that are no text"
    return "text that is not JSON"


def converter_todo(sides: Iterable[str] = SIDES) -> str:
    """What to set on a connector whose converter is not JSON; its own setting outranks its worker's."""
    lines = [f"{side}.converter={JSON}, {side}.converter.schemas.enable=false" for side in sides]
    nulls = ", value.converter.replace.null.with.default=false" if "value" in sides else ""
    return (
        f"The converter is the likely cause: the connector names none, and its worker's does not write JSON."
        f" Set {', '.join(lines)}{nulls} on the connector, then recover the tables."
    )
