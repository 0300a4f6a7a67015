"""The configuration reference as Markdown, made from the declarations: `python -m airflow_cdc.config.reference > PAGE`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_cdc.config.registry import DURATION, LIMIT, pipeline_schema
from airflow_cdc.config.settings import OPTIONS, SECTION, Option
from airflow_cdc.core.duration import span

HEAD = f"""# Configuration

Made from the code by `make reference`; a test compares. Where an option or a key is first needed stands in
[Install](../how-to/install.md) and [Declare a pipeline](../how-to/pipelines.md).

## airflow.cfg, section `[{SECTION}]`

Set them in airflow.cfg, or as environment variables: `{OPTIONS[0].variable}` is `[{SECTION}] {OPTIONS[0].name}`. Every
component of Airflow needs the same. `airflow config list --section {SECTION} --show-values` shows what holds.
"""
KEYS = """
## pipelines.yaml

Each key under `pipelines`, `<name>`. An unknown key is an error that names the nearest one.
"""
Row = Sequence[str]


def page() -> str:
    """The whole page."""
    keys = list(_keys(pipeline_schema()))
    tables = (_table(("option", "type", "", "default", "example"), map(_option, OPTIONS)), KEYS, _table(KEY_HEAD, keys))
    return "\n".join((HEAD, *tables))


KEY_HEAD = ("key", "type", "", "default")


def _table(head: Row, rows: Any) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _option(option: Option) -> Row:
    default = f"`{option.default}`" if option.default else f"{option.unset} (empty)"
    return (f"`{option.name}`", option.form, option.description, default, f"`{option.example}`")


def _keys(schema: Mapping[str, Any], above: str = "", part: Mapping[str, Any] | None = None) -> Iterator[Row]:
    """The keys of a mapping, each followed by those below it."""
    here = schema if part is None else part
    for name, declared in here["properties"].items():
        below = _below(schema, declared)
        path = f"{above}{name}"
        default = _default(declared) if name not in here.get("required", ()) else "required"
        yield (
            f"`{path}`",
            _type(declared),
            declared["description"],
            "" if below and default != "required" else default,
        )
        if below:
            yield from _keys(schema, f"{path}.", below)


def _below(schema: Mapping[str, Any], declared: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The mapping that a key holds, or a list of which; None for a plain value."""
    reference = declared.get("$ref") or declared.get("items", {}).get("$ref")
    return schema["$defs"][reference.rpartition("/")[2]] if reference else None


def _type(declared: Mapping[str, Any]) -> str:
    if words := declared.get("enum") or ([declared["const"]] if "const" in declared else []):
        return ", ".join(f"`{word}`" for word in words)
    if declared.get("title") in (DURATION, LIMIT):
        return str(declared["title"])
    names = {"string": "text", "boolean": "`true` or `false`", "integer": "number", "array": "list", None: "mapping"}
    return names[declared.get("type")]


def _default(declared: Mapping[str, Any]) -> str:
    value = declared["default"]
    if declared.get("title") == DURATION:
        return f"`{span(value).replace(' ', '')}`"
    return (
        f"`{value if isinstance(value, str) else json.dumps(value)}`"
        if value not in ("", [], 0) or value is False
        else "none"
    )


if __name__ == "__main__":
    sys.stdout.write(page())
