"""What ExtractNewRecordState on a source connector leaves of its events, as its settings say.

The transform replaces the envelope by the row. Operation, place and time are lost unless `add.fields` or `add.headers` keep
them. What becomes of a delete depends on the version: up to 2.4 `delete.handling.mode` and `drop.tombstones` decide, and
by default a delete leaves nothing; later `delete.tombstone.handling.mode` does, and by default a delete leaves a message
without a value. 3.6.1 ignores the older settings (seen). Connect does not show the connector's version with its settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_cdc.connectors.debezium.names import is_true, split_list
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Table

DELETED: Final = "__deleted"
FLATTENS: Final = "io.debezium.transforms.ExtractNewRecordState"
_MODE: Final = "delete.tombstone.handling.mode"
_OLD_MODE: Final = "delete.handling.mode"
_OLD_DROPS: Final = "drop.tombstones"
_NULLS: Final = "replace.null.with.default"
# fields of the envelope itself; every other one without a struct before it is of its source block, or of its transaction
_OF_ENVELOPE: Final = frozenset({"op", "ts_ms", "ts_us", "ts_ns"})
_OF_TRANSACTION: Final = frozenset({"id", "total_order", "data_collection_order"})
# kind of source → what an event must still say so that its change has a place in the log
_WHOLE: Final[Mapping[str, tuple[str, ...]]] = {
    "mysql": ("op", "source.ts_ms", "source.gtid", "source.server_id", "source.file", "source.pos", "source.row"),
    "mariadb": ("op", "source.ts_ms", "source.gtid", "source.server_id", "source.file", "source.pos", "source.row"),
    "postgres": ("op", "source.ts_ms", "source.lsn", "source.txId", "source.sequence"),
}


class Deletes(StrEnum):
    """What the topic holds of a delete."""

    LOST = "nothing"
    NULL = "a message without a value"
    ROW = "the row, marked as deleted"


@dataclass(frozen=True, slots=True)
class FlattenedForm:
    """What the messages of a flattening connector say. Hashable: it is part of what a decoder is made of.

    Attributes:
        name: of the transform.
        deletes: what may be left of a delete; more than one where the version decides.
        setting: what decides it, as `name=value`; "" where nothing is set.
        fields: part of the envelope, as `op` or `source.pos`, and the field of the value that holds it.
        written: the list `add.fields` as it is set.
        headers: the same, and the header that holds it, as text.
        null_becomes_default: a NULL in a column with a default may arrive as that default, whatever the converter is told.
        loose: settings that take parts away from rows in ways that cannot be followed, as `name=value`.
        only: (topic pattern, negated) of its predicate; None: it flattens the events of every topic.
        behind: how many routers stand before it, which have renamed the topics that its predicate sees.
    """

    name: str
    deletes: frozenset[Deletes]
    setting: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    written: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    null_becomes_default: bool = True
    loose: tuple[str, ...] = ()
    only: tuple[str, bool] | None = None
    behind: int = 0

    @property
    def loses_deletes(self) -> bool:
        """Whether a delete leaves nothing, in whatever version."""
        return self.deletes == {Deletes.LOST}

    def is_placed(self, source: str) -> bool:
        """Whether every message has its change's place in the log of such a source.

        A delete that is a message without a value has none. Then no message counts as placed: that a snapshot holds the
        changes around a delete says nothing of the delete, and applied alone it would remove a row that was written again.
        """
        return self.deletes == {Deletes.ROW} and not self.lacks(source)

    def lacks(self, source: str) -> tuple[str, ...]:
        """What a change of such a source needs to have a place in the log and is in neither fields nor headers."""
        parts = {part for part, _ in (*self.fields, *self.headers)}
        return tuple(one for one in _WHOLE.get(source, ()) if one not in parts)

    def made_whole(self, source: str) -> str:
        """What keeps all that is needed, and what is kept already: `name=value`, and perhaps `, name=value`; "" if all is."""
        own = f"transforms.{self.name}."
        fields = f"{own}add.fields={','.join((*self.written, *self.lacks(source)))}" if self.lacks(source) else ""
        deletes = "" if self.deletes == {Deletes.ROW} else f"{own}{_MODE}=rewrite"
        return ", ".join(filter(None, (fields, deletes)))

    def hidden_by(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Columns of a table that cannot be told from a field that the transform adds, sorted."""
        return tuple(sorted({*self.added} & {*columns}))

    @property
    def added(self) -> tuple[str, ...]:
        """The fields that the transform adds to a row."""
        return (*(name for _, name in self.fields), *([DELETED] if Deletes.ROW in self.deletes else []))


def check_flattened(form: FlattenedForm, table: Table) -> None:
    """Refuse a table whose rows such messages do not carry. Raises SchemaError."""
    if table.keyless:
        raise SchemaError(
            f"the table has no key, and {form.name} flattens its events: an UPDATE then does not say which row it replaced",
            where=f"table {table.full_name}",
            todo=f"Give the table a key, remove {form.name} from transforms, or remove the table from the pipeline.",
        )
    if hidden := form.hidden_by(column.name for column in table.mirrored):
        raise SchemaError(
            f"{form.name} adds a field with the name of a column: {', '.join(hidden)}",
            where=f"table {table.full_name}",
            todo=f"Set another transforms.{form.name}.add.fields.prefix, or remove the table from the pipeline.",
        )


def flattened_form(
    name: str,
    options: Mapping[str, str],
    *,
    old: bool = False,
    only: tuple[str, bool] | None = None,
    behind: int = 0,
) -> FlattenedForm:
    """The form that a transform of this name gives; `options` are its settings without `transforms.<name>.`.

    `old`: the connector's names are those of Debezium 1.x. `only`, `behind`: as FlattenedForm's.
    """
    deletes, setting = _deletes(options, old=old)
    fields = _added(options, "add.fields")
    # seen on 3.6.1: a row to which anything is added is copied field by field, and with its defaults
    copied = bool(fields) or Deletes.ROW in deletes
    return FlattenedForm(
        name,
        deletes,
        ", ".join(f"transforms.{name}.{one}" for one in setting),
        tuple(fields.items()),
        tuple(split_list(options.get("add.fields", ""))),
        tuple(_added(options, "add.headers").items()),
        copied and (old or is_true(options.get(_NULLS, "true"))),  # 1.9.7 does not know the option, and ignores it
        tuple(
            f"transforms.{name}.{key}={options[key]}"
            for key in _LOOSE
            if options.get(key, "").strip() not in {"", "false"}
        ),
        only,
        behind,
    )


def keeping_deletes(*, old: bool) -> str:
    """The setting of the transform by which a delete leaves the row, marked as deleted, as `name=value`."""
    return f"{_OLD_MODE if old else _MODE}=rewrite"


def _deletes(options: Mapping[str, str], *, old: bool) -> tuple[frozenset[Deletes], tuple[str, ...]]:
    """What may be left of a delete, and the settings that decide it."""
    mode = options.get(_MODE, "").strip().lower()
    if mode and not old:
        return frozenset({_MODES[mode]} if mode in _MODES else Deletes), (f"{_MODE}={mode}",)
    handling, drops = options.get(_OLD_MODE, "drop").strip().lower(), is_true(options.get(_OLD_DROPS, "true"))
    before = {"rewrite": Deletes.ROW, "none": Deletes.NULL}.get(handling, Deletes.LOST if drops else Deletes.NULL)
    shown = tuple(f"{key}={options[key]}" for key in (_OLD_MODE, _OLD_DROPS) if key in options)
    return frozenset({before} if old else {before, Deletes.NULL}), shown


_MODES: Final = {
    "drop": Deletes.LOST,
    "tombstone": Deletes.NULL,
    "rewrite": Deletes.ROW,
    "rewrite-with-tombstone": Deletes.ROW,
    "delete-to-tombstone": Deletes.NULL,
}
_LOOSE: Final = ("drop.fields.header.name", "drop.fields.from.key")


def _added(options: Mapping[str, str], key: str) -> dict[str, str]:
    """Part of the envelope → the name under which the transform adds it.

    Case: `op,source.pos,table:t` with the default prefix gives __op, __source_pos and __t, of source.table.
    """
    prefix = options.get(f"{key}.prefix", "__").strip()
    added = {}
    for one in split_list(options.get(key, "")):
        path, _, renamed = one.partition(":")
        struct, dot, own = path.rpartition(".")
        whole = path if dot else _whole(own)
        added[whole] = prefix + (renamed or (f"{struct}_{own}" if dot else own))
    return added


def _whole(own: str) -> str:
    if own in _OF_ENVELOPE:
        return own
    return f"{'transaction' if own in _OF_TRANSACTION else 'source'}.{own}"
