"""In which form a seed's connector writes its events: the format of keys and values, where a schema's id is, the whole envelope or the row.

Out of dice of its own, so that a seed's statements are the same in each form, but for columns whose names Avro would make one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from stack.registry import AVRO, JSON_SCHEMA

if TYPE_CHECKING:
    from stack.registry import Registry
    from tests.adversary.schema import Table

_SIDES: Final = ("key", "value")
_JSON: Final[Mapping[str, str]] = {
    f"{side}.converter{name}": value
    for side in _SIDES
    for name, value in (
        ("", "org.apache.kafka.connect.json.JsonConverter"),
        (".replace.null.with.default", "false"),
    )
}
# names of schemas that Avro allows; of fields, too, where the fields are Avro's
_SCHEMA_NAMES: Final = {"schema.name.adjustment.mode": "avro"}
_FIELD_NAMES: Final = {"field.name.adjustment.mode": "avro"}
_TRANSFORM: Final[Mapping[str, str]] = {
    "type": "io.debezium.transforms.ExtractNewRecordState",
    "replace.null.with.default": "false",
}
_WHOLE: Final = {"add.fields": "op,source.ts_ms,source.gtid,source.server_id,source.file,source.pos,source.row"}
_MODE: Final = "delete.tombstone.handling.mode"
# what the transform makes of a delete, and whether it adds what a change's place is told by → its settings
FLATTENED: Final[Mapping[str, Mapping[str, str]]] = {
    "rewrite": {_MODE: "rewrite", **_WHOLE},
    "rewrite-with-tombstone": {_MODE: "rewrite-with-tombstone", **_WHOLE},
    "rewrite, nothing added": {_MODE: "rewrite"},
    "tombstone": {_MODE: "tombstone", **_WHOLE},
    "delete-to-tombstone, nothing added": {_MODE: "delete-to-tombstone"},
    "as it comes": {},
    # of before 2.5: a connector of today takes neither
    "the older rewrite": {"delete.handling.mode": "rewrite", "drop.tombstones": "false", **_WHOLE},
}


@dataclass(frozen=True, slots=True)
class Form:
    """How events are written.

    Attributes:
        kind: a converter's class, "" for Connect's own JSON.
        ids: a key of stack.registry.FORMS.
        flat: a key of FLATTENED, "" for whole envelopes.
    """

    kind: str = ""
    ids: str = ""
    flat: str = ""

    @property
    def is_placed(self) -> bool:
        """Whether every change says where in the log it is. Without that, rows that go on changing stay undecided, as the docs say."""
        return self.flat in {"", "rewrite", "rewrite-with-tombstone"}

    @property
    def has_registry(self) -> bool:
        return bool(self.kind)

    @property
    def name(self) -> str:
        """For people: a key of FORMATS, and how it is flattened."""
        format_ = next(name for name, one in FORMATS.items() if one == (self.kind, self.ids))
        return f"{format_}{f', flattened ({self.flat})' if self.flat else ''}"

    def fitting(self, table: Table) -> Table:
        """The table without columns to which Avro would give the name of another: one such table stops the connector for good."""
        if self.kind != AVRO:
            return table
        owners: dict[str, str] = {}  # the name that Avro makes → the column that has it
        for name in (*table.key, "n", "ticks", *(column.name for column in table.columns)):
            owners.setdefault(legal(name), name)
        kept = frozenset(owners.values())
        columns = tuple(column for column in table.columns if column.name in kept)
        return replace(table, columns=columns, key=tuple(name for name in table.key if name in kept))

    def settings(self, modes: Mapping[str, str], schemas: Registry | None) -> dict[str, str]:
        """The connector's settings of these modes in this form. `schemas`: asked for by forms that have a registry."""
        flat = {}
        if self.flat:
            own = {**_TRANSFORM, **FLATTENED[self.flat]}
            flat = {"transforms": "unwrap"} | {f"transforms.unwrap.{name}": value for name, value in own.items()}
        if not self.kind:
            return {**_JSON, **modes, **flat}
        if schemas is None:
            raise AssertionError(f"{self.name} needs a registry")
        ours = {name: value for name, value in modes.items() if not name.endswith("schemas.enable")}
        written = {k: v for side in _SIDES for k, v in schemas.converter(side, self.ids, self.kind).items()}
        fields, nulls = (_FIELD_NAMES, {}) if self.kind == AVRO else ({}, _KEPT_NULLS)
        return {**written, **_SCHEMA_NAMES, **fields, **nulls, **ours, **flat}


JSON: Final = Form()
_KEPT_NULLS: Final = {name: value for name, value in _JSON.items() if name.endswith("default")}
FORMATS: Final[Mapping[str, tuple[str, str]]] = {
    "JSON": ("", ""),
    "Avro, ids in headers": (AVRO, "headers"),
    "Avro, ids of eight bytes": (AVRO, "apicurio"),
    "Avro, ids of four bytes": (AVRO, "confluent"),
    "JSON Schema": (JSON_SCHEMA, "headers"),
}


def legal(name: str) -> str:
    """A column's name as `field.name.adjustment.mode=avro` makes it."""
    return re.sub(r"^(?=[0-9])", "_", re.sub(r"[^A-Za-z0-9_]", "_", name))


def form_of(seed: int, without: frozenset[str] = frozenset()) -> Form:
    """The form of a seed: half of them JSON, with or without schemas as its modes say, and two of five flattened in some way."""
    dice = random.Random(f"wire {seed}")
    names = [name for name, (kind, _) in FORMATS.items() if kind]
    drawn = dice.choice(names) if dice.random() < 0.5 else "JSON"
    flat = dice.choice(list(FLATTENED)) if dice.random() < 0.4 else ""
    kind, ids = FORMATS["JSON" if "formats" in without else drawn]
    return Form(kind, ids, "" if "flattened" in without else flat)
