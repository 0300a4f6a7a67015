"""A JSON schema of pipelines.yaml for editors, made from the declarations: `python -m airflow_cdc.config.schema > FILE`.

An editor completes keys, shows their descriptions, and marks errors. The schema knows less than `airflow cdc doctor`:
not which connector reads which source, nor which connections exist.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, Final, Literal, get_args, get_origin

from airflow_cdc.core.pipeline import UNUSED, Pipeline
from airflow_cdc.core.settings import DURATION, LIMIT, NAME, TABLE, Declared, Form, declared, plain_value
from airflow_cdc.kinds import WINGS

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string", "minLength": 1}
_PART = r"[^.,\s](?:[^.,]*[^.,\s])?"
# keyed by the form's identity, as two forms may have the same name
_FORMS: Final[tuple[tuple[Form, Schema], ...]] = (
    (NAME, {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_]{0,99}$"}),
    (TABLE, {"type": "string", "pattern": rf"^{_PART}\.{_PART}$"}),
    (DURATION, {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^\\s*\\d+\\s*[smhd]?(\\s*\\d+\\s*[smhd])*\\s*$"}]}),
    (LIMIT, {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": "^\\s*\\d+(\\.\\d+)?\\s*%?\\s*$"}]}),
)  # fmt: skip
_PLAIN: Final[Mapping[object, Schema]] = {str: TEXT, bool: {"type": "boolean"}, int: {"type": "integer", "minimum": 0}}


def schema() -> Schema:
    """The whole schema (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pipelines.yaml of airflow-provider-cdc",
        "type": "object",
        "required": ["pipelines"],
        "additionalProperties": False,
        "properties": {
            "pipelines": {
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"pattern": "^[A-Za-z][A-Za-z0-9_]*$"},
                "additionalProperties": _settings(Pipeline),
            }
        },
    }


def text() -> str:
    """The schema as JSON text."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _settings(of: type[object], kind: str = "") -> Schema:
    """A mapping with the keys of a settings class; `kind`: the only allowed value of its key `kind`."""
    keys = [one for one in declared(of) if one.key.description != UNUSED]
    properties = {one.name: {"const": kind} if kind and one.name == "kind" else _key(one) for one in keys}
    required = [one.name for one in keys if one.required]
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": required}


def _key(one: Declared) -> Schema:
    schema: Schema = {"description": one.key.description}
    if not one.required and (default := plain_value(one.default, one.key.form)) not in (None, "", []):
        schema["default"] = default
    if one.key.wing:
        return {**schema, **_part(one)}
    if get_origin(one.type) is tuple:
        return {**schema, **_list(one)}
    return {**schema, **_value(one.type, one)}


def _part(one: Declared) -> Schema:
    """A part of a pipeline: the settings of one of the kinds of its wing."""
    kinds = WINGS[one.key.wing]
    parts = [_settings(kinds[name].settings, name) for name in kinds.built_in]
    return {"oneOf": parts if one.required else [*parts, {"type": "null"}]}


def _list(one: Declared) -> Schema:
    item = _value(get_args(one.type)[0], one)
    schema: Schema = {"type": "array", "items": item, **({"minItems": 1} if one.required else {})}
    return {"anyOf": [schema, item]} if one.key.alone else schema


def _value(of: object, one: Declared) -> Schema:
    if is_dataclass(of) and isinstance(of, type) and one.key.form is None:
        return _settings(of)
    if one.key.form is not None:
        return next((schema for form, schema in _FORMS if form is one.key.form), TEXT)
    if get_origin(of) is Literal:
        words = list(get_args(of))
        return {"enum": [*words, False] if "off" in words else words}  # YAML reads a bare `off` as false
    return {"type": "string"} if one.default == "" else _PLAIN[of]


if __name__ == "__main__":
    sys.stdout.write(text())
