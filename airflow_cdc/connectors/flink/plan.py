"""A compiled plan: the statement of a job as Flink stores it, with the options of its tables.

A source with the id it had goes on from the savepoint, whatever its options say. A source with a new id starts where its
options say, and the other operators keep their state.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Required, TypedDict, cast

from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.offset import RawOffset
from airflow_cdc.core.text import read_json
from airflow_cdc.fields import Fields
from airflow_cdc.files import replace_file

SOURCE: Final = "mysql-cdc"
BY_YAML: Final = (
    "the job was made from a pipeline YAML of Flink CDC, whose operators all take their ids from one prefix, so no source"
    " gets a new position while the others keep their state"
)
YAML_BY_HAND: Final = "Start it as you did before; to recover it from here, write it as a statement (COMPILE PLAN)."
_STARTUP: Final = "scan.startup."
_OFFSET: Final = "scan.startup.specific-offset."
_MODE: Final = "specific-offset"
_EXEC: Final = "stream-exec-"
_SCAN: Final = "stream-exec-table-source-scan"
_SINK: Final = "stream-exec-sink"
# without the old images of updated rows, which a sink that takes rows by their key does not want
_COPIES: Final = frozenset({_SCAN, _SINK, f"{_EXEC}drop-update-before"})
# operators that handle one row after the other, and keep none
_STATELESS: Final = _COPIES | {f"{_EXEC}{name}" for name in ("calc", "union")}


# As Flink writes them, as far as they are read here
class _Table(TypedDict, total=False):
    resolvedTable: Mapping[str, dict[str, str]] | None


class _Scan(TypedDict, total=False):
    table: _Table | None
    abilities: list[Mapping[str, object]] | None


class Node(TypedDict, total=False):
    id: Required[int]
    type: str
    scanTableSource: _Scan | None
    requireUpsertMaterialize: bool


class Document(TypedDict):
    nodes: list[Node]
    edges: list[dict[str, int]]


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled plan, read from `path`."""

    path: str
    document: Document

    @classmethod
    def read(cls, path: str) -> Plan:
        """Read the file. Raises ConnectorError."""
        try:
            document = read_json(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise _unusable(path, f"cannot be read: {error.strerror}") from None
        except ValueError:
            raise _no_json(path) from None
        if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
            raise _unusable(path, "is no compiled plan: it has no nodes")
        if not _is_plan(document["nodes"], document.get("edges")):
            raise _unusable(path, "is no compiled plan: a node or an edge of it has another form than Flink's")
        return cls(path, cast("Document", document))

    @property
    def sources(self) -> tuple[Mapping[str, str], ...]:
        """The options of each table that is read from MySQL's log. They hold the password."""
        return tuple(_options(node) for node in self.document["nodes"] if _is_source(node))

    @property
    def between(self) -> tuple[str, ...]:
        """What is done to rows between sources and sinks, by Flink's names for the operators; (): they are copied."""
        others = {_name(node).removeprefix(_EXEC) for node in self.document["nodes"] if _name(node) not in _COPIES}
        abilities = {str(one.get("type", "ability")) for node in self.document["nodes"] for one in _abilities(node)}
        return tuple(sorted({*others, *self.keeps, *abilities}))

    @property
    def keeps(self) -> tuple[str, ...]:
        """The operators, apart from sources and sinks, that keep a state of rows, by Flink's names for them."""
        return tuple(sorted({name for node in self.document["nodes"] if (name := _keeping(node))}))

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of its sources."""
        return tuple(int(node["id"]) for node in self.document["nodes"] if _is_source(node))

    def source(self, reads: str = "") -> Node:
        """The node of the source `reads` (database-name.table-name); "": its only one. Raises ConnectorError."""
        sources = [node for node in self.document["nodes"] if _is_source(node)]
        matches = [node for node in sources if not reads or _reads(node) == reads]
        if len(matches) == 1:
            return matches[0]
        if not reads:
            raise _unusable(
                self.path,
                f"has {len(sources)} sources of MySQL's log, and each has a position of its own",
                "Say by connector.reads which one the pipeline is about.",
            )
        names = ", ".join(sorted(map(_reads, sources)))
        raise _unusable(self.path, f"has {len(matches)} sources that read {reads}; there are {names or 'none'}")

    def of(self, reads: str) -> Plan:
        """The source `reads` and all that its rows go through; "": the whole plan. Raises ConnectorError."""
        if not reads:
            return self
        ids = self._after(int(self.source(reads)["id"]))
        mine = [node for node in self.document["nodes"] if node["id"] in ids]
        return Plan(self.path, {**self.document, "nodes": mine})

    def starting_at(self, offset: RawOffset, reads: str = "", *, alone: bool = False) -> Plan:
        """The plan with the source `reads` as a new one that starts at `offset`.

        `alone`: what only its rows go through is new, too, so that its state is left behind. Raises ConnectorError
        for a source that is not there, or not the only one.
        """
        document = copy.deepcopy(self.document)
        node = Plan(self.path, document).source(reads)
        _renumber(document, self._only_after(int(node["id"])) if alone else frozenset({int(node["id"])}))
        options = _options(node)
        for key in [key for key in options if key.startswith(_STARTUP)]:
            del options[key]
        options.update(_startup(offset))
        return Plan(self.path, document)

    def _after(self, first: int) -> frozenset[int]:
        """The node `first` and all that come after it."""
        ids, left = {first}, [first]
        while left:
            here = left.pop()
            more = {int(edge["target"]) for edge in self.document["edges"] if edge["source"] == here} - ids
            ids |= more
            left += more
        return frozenset(ids)

    def _only_after(self, first: int) -> frozenset[int]:
        """The node `first` and those that get rows from it alone."""
        return self._after(first).difference(*(self._after(other) for other in self.ids if other != first))

    def write(self) -> None:
        """Replace the file, whole or not at all; it keeps its rights, for it holds a password. Raises ConnectorError."""
        path = Path(self.path)
        try:
            replace_file(path, json.dumps(self.document, indent=2))
        except OSError as error:
            raise _unusable(self.path, f"cannot be written: {error.strerror}") from None


def _is_plan(nodes: list[object], edges: object) -> bool:
    """Whether every part that is read here has Flink's form: what is read later must not end in a KeyError."""
    return (
        all(isinstance(node, dict) and type(node.get("id")) is int and _has_options(node) for node in nodes)
        and isinstance(edges, list)
        and all(
            isinstance(edge, dict) and all(type(edge.get(end)) is int for end in ("source", "target")) for edge in edges
        )
    )


def _has_options(node: Mapping[str, object]) -> bool:
    """Whether a node's table is one, or it has none."""
    inner = node
    for name in ("scanTableSource", "table", "resolvedTable", "options"):
        part = inner.get(name) or {}
        if not isinstance(part, dict):
            return False
        inner = part
    abilities = Fields(node).inner("scanTableSource").get("abilities") or []
    return isinstance(abilities, list) and all(isinstance(one, dict) for one in abilities)


def _keeping(node: Node) -> str:
    """The name of an operator with a state of rows; "": it has none."""
    name = _name(node)
    if name == _SINK and node.get("requireUpsertMaterialize"):
        return "upsert-materialize"
    return "" if name in _STATELESS else name.removeprefix(_EXEC)


def _name(node: Node) -> str:
    """The kind of an operator, without the version of its form."""
    return str(node.get("type", "")).rpartition("_")[0]


def _abilities(node: Node) -> list[Mapping[str, object]]:
    """What Flink's planner has a source do: filters, projections, metadata."""
    return list((node.get("scanTableSource") or {}).get("abilities") or ())


def _is_source(node: Node) -> bool:
    return bool(_options(node).get("connector") == SOURCE)


def _renumber(document: Document, ids: frozenset[int]) -> None:
    """Give nodes ids that no node of the plan has had so far, in place."""
    newest = max(int(node["id"]) for node in document["nodes"])
    new = {old: newest + n for n, old in enumerate(sorted(ids), 1)}
    for edge in document["edges"]:
        edge.update({end: new[edge[end]] for end in ("source", "target") if edge[end] in new})
    for node in document["nodes"]:
        node["id"] = new.get(node["id"], node["id"])


def _reads(node: Node) -> str:
    """What a source reads, as its options say it."""
    options = _options(node)
    return f"{options.get('database-name', '')}.{options.get('table-name', '')}"


def _options(node: Node) -> dict[str, str]:
    """The options of the table that a node reads, to be changed in place; a new, empty mapping for other nodes."""
    table = (node.get("scanTableSource") or {}).get("table") or {}
    return (table.get("resolvedTable") or {}).get("options") or {}


def _startup(offset: RawOffset) -> dict[str, str]:
    words = {"file": "file", "pos": "pos", "gtids": "gtid-set", "event": "skip-events", "row": "skip-rows"}
    options = {
        _OFFSET + word: str(offset[key]) for key, word in words.items() if offset.get(key) not in (None, "", "0")
    }
    return {f"{_STARTUP}mode": _MODE, f"{_OFFSET}pos": str(offset.get("pos", "0")), **options}


def _no_json(path: str) -> ConnectorError:
    """The error for a file that is no JSON; it tells a pipeline YAML of Flink CDC from any other."""
    keys = set(re.findall(r"^(source|sink) *:", Path(path).read_text(encoding="utf-8", errors="replace"), re.MULTILINE))
    if keys == {"source", "sink"}:
        return _unusable(path, f"is a pipeline YAML: {BY_YAML}", YAML_BY_HAND)
    return _unusable(path, "is not JSON")


def _unusable(path: str, why: str, todo: str = "") -> ConnectorError:
    return ConnectorError(
        f"the compiled plan {why}",
        where=path,
        todo=todo or "Check connector.plan in pipelines.yaml; COMPILE PLAN writes the file.",
    )
