"""What a kind of system declares before it is used: the checks that the tests of all kinds share."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow_cdc.core.kind import ConnectorKind, Lazy, SourceKind
from airflow_cdc.core.settings import Reader
from airflow_cdc.core.setup import Setup

# the fields of Airflow's own form of a connection
_AIRFLOWS = {"host", "schema", "login", "password", "port", "extra", "description"}


def offers(kind: SourceKind | ConnectorKind, parts: Iterable[str]) -> None:
    """These parts of the kind are there, and no others. A hook is not imported: it would bring Airflow with it."""
    given = {one.name: getattr(kind, one.name) for one in fields(kind)}
    lazy = {name: part for name, part in given.items() if isinstance(part, Lazy)}
    assert set(lazy) == set(parts)
    assert [name for name, part in lazy.items() if name != "hook" and part.load() is None] == []
    _class_of(lazy["hook"].path.replace(":", "."))


def _class_of(path: str) -> ast.ClassDef:
    module, _, name = path.rpartition(".")
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    body = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
    return next(one for one in body if isinstance(one, ast.ClassDef) and one.name == name)


def asks_in_airflow(
    kind: SourceKind | ConnectorKind,
    hidden: set[str],
    named: Mapping[str, str],
    example: Mapping[str, str],
    more: Mapping[str, object],
) -> None:
    """The form of the kind's connection: which of Airflow's fields it hides or renames, the example in them, and its own fields.

    The connection's type and name are those that the hook goes by; a connection of another type would be refused.
    """
    assert kind.form is not None
    form: Any = kind.form.load()
    own = {
        one.targets[0].id: one.value.value
        for one in _class_of(form["hook-class-name"]).body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and isinstance(one.value, ast.Constant)
    }
    assert (own["conn_type"], own["hook_name"]) == (form["connection-type"], form["hook-name"])
    assert kind.hook.path.replace(":", ".") == form["hook-class-name"]
    behaviour = form["ui-field-behaviour"]
    assert set(form) == {"connection-type", "hook-class-name", "hook-name", "ui-field-behaviour", "conn-fields"}
    assert set(behaviour) == {"hidden-fields", "relabeling", "placeholders"}
    assert set(behaviour["hidden-fields"]) == hidden
    assert behaviour["relabeling"] == named
    assert behaviour["placeholders"] == example
    assert (set(behaviour["relabeling"]) | set(behaviour["placeholders"])) <= _AIRFLOWS - hidden
    assert {
        name: (field["schema"]["type"], field["schema"].get("default")) for name, field in form["conn-fields"].items()
    } == more


def asks(setup: Setup, questions: Mapping[str, tuple[str, bool]], by_name: str = "") -> None:
    """The questions of `airflow cdc init`: each with what it offers, and whether it must be answered; one may take the pipeline's name."""
    asked = {one.key: (one.default or one.example, one.needed) for one in setup.questions}
    assert asked == questions
    assert [one.key for one in setup.questions if one.as_pipeline] == ([by_name] if by_name else [])


def reads(
    cls: type[Any], written: Mapping[str, object], then: Mapping[str, object], of: Mapping[str, object] | None = None
) -> Any:
    """The settings of pipelines.yaml: what must be written (all, or that `of` which is needed), and what holds then."""
    empty = Reader(None)  # type: ignore[arg-type]
    assert empty.settings(cls, {}) is None
    assert {fault.path[-1] for fault in empty.faults} == set(of or written)
    reader = Reader(None)  # type: ignore[arg-type]
    read = reader.settings(cls, written)
    assert reader.faults == []
    assert {name: getattr(read, name) for name in then} == then
    return read


def refuses(cls: type[Any], written: Mapping[str, object], *path: str) -> None:
    """A value that is not in the form of its key is a fault of that key."""
    reader = Reader(None)  # type: ignore[arg-type]
    assert reader.settings(cls, written) is None
    assert [fault.path for fault in reader.faults] == [path]
