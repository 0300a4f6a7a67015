"""The configuration reference as Markdown, made from the declarations: `python -m airflow_cdc.config.reference > PAGE`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, Literal, get_args, get_origin

from airflow_cdc.config.settings import OPTIONS, SECTION, Option
from airflow_cdc.core.amounts import written
from airflow_cdc.core.kind import Named
from airflow_cdc.core.pipeline import UNUSED, Pipeline
from airflow_cdc.core.settings import DURATION, Declared, declared, plain_value
from airflow_cdc.kinds import WINGS, Kinds

HEAD = f"""# Configuration

`make reference` generates this page from the code. [Install](../how-to/install.md) and
[Declare a pipeline](../how-to/pipelines.md) say where the options and keys are first needed.

## airflow.cfg, section `[{SECTION}]`

Set them in airflow.cfg, or as environment variables: `{OPTIONS[0].variable}` is `[{SECTION}] {OPTIONS[0].name}`. All
components of Airflow need the same values. `airflow config list --section {SECTION} --show-values` shows the current ones.
"""
KEYS = """
## pipelines.yaml

The keys under `pipelines.<name>`. An unknown key is an error that suggests the nearest one. The `kind` of a part decides which
keys it has; keys of some kinds only are marked with the names of these kinds.
"""
KEY_HEAD = ("key", "type", "", "default")
Row = Sequence[str]


def page() -> str:
    """The whole page."""
    keys = list(_keys(declared(Pipeline)))
    tables = (_table(("option", "type", "", "default", "example"), map(_option, OPTIONS)), KEYS, _table(KEY_HEAD, keys))
    return "\n".join((HEAD, *tables))


def _table(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _option(option: Option) -> Row:
    default = f"`{option.default}`" if option.default else f"{option.unset} (empty)"
    return (f"`{option.name}`", option.form, option.description, default, f"`{option.example}`")


def _keys(keys: Iterable[Declared], above: str = "") -> Iterator[Row]:
    """The rows of keys, each followed by the keys below it."""
    for one in keys:
        below = _below(one)
        yield _row(one, above, hide_default=bool(below))
        if one.key.wing:
            yield from _part(WINGS[one.key.wing], f"{above}{one.name}.")
        elif below:
            yield from _keys(below, f"{above}{one.name}.")


def _row(one: Declared, above: str, *, hide_default: bool = False, mark: str = "") -> Row:
    default = "required" if one.required else "" if hide_default else _default(one)
    return f"`{above}{one.name}`", _type(one), f"{mark}{one.key.description}", default


def _part(kinds: Kinds[Named], above: str) -> Iterator[Row]:
    """The keys of a part: its kind, and those of the kinds' settings; a key that not all kinds have lists its kinds."""
    names: dict[Declared, list[str]] = {}
    for kind in kinds.built_in:
        for one in declared(kinds[kind].settings):
            names.setdefault(one, []).append(kind)
    for one, having in names.items():
        if one.key.description == UNUSED:
            continue
        if one.name == "kind":
            words = ", ".join(f"`{name}`" for name in kinds.built_in)
            yield f"`{above}kind`", words, one.key.description, "required"
        else:
            yield _row(one, above, mark="" if len(having) == len(kinds.built_in) else f"({', '.join(having)}) ")


def _below(one: Declared) -> tuple[Declared, ...]:
    """The keys of the mapping, or list of mappings, under a key; none for a plain value and for a part."""
    of = get_args(one.type)[0] if get_origin(one.type) is tuple else one.type
    return declared(of) if is_dataclass(of) and isinstance(of, type) and one.key.form is None else ()


def _type(one: Declared) -> str:
    if get_origin(one.type) is Literal:
        return ", ".join(f"`{word}`" for word in get_args(one.type))
    if get_origin(one.type) is tuple:
        return "list"
    if one.key.form is not None:
        return one.key.form.title
    forms: Mapping[object, str] = {str: "text", bool: "`true` or `false`", int: "number"}
    return forms.get(one.type, "mapping")


def _default(one: Declared) -> str:
    value: Any = plain_value(one.default, one.key.form)
    if one.key.form is DURATION:
        return f"`{written(value)}`"
    if value in ("", [], 0, None) and value is not False:
        return "none"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


if __name__ == "__main__":
    sys.stdout.write(page())
