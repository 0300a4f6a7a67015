"""Which of a Debezium connector's settings keep rows from being taken from its events, and which columns they touch.

Any setting whose effect on rows we cannot reproduce exactly is refused by name (INV 21), because a snapshot read past
the connector must hold exactly the values that the connector's events would have held. A refusal is a fact about rows:
it stops what reads or writes rows, and says nothing about the connector's position (INV 40).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from airflow_cdc.connectors.debezium.converters import NULLS_SHOWN, Converter, Format, read_converter, registry_setting
from airflow_cdc.connectors.debezium.events.mysql import MySqlValues
from airflow_cdc.connectors.debezium.events.postgres import PostgresValues
from airflow_cdc.connectors.debezium.forms import SIDES
from airflow_cdc.connectors.debezium.names import Named, is_true, split_list, unseen_error
from airflow_cdc.connectors.debezium.plugin_names import JSON
from airflow_cdc.connectors.debezium.routing import full_match, is_listed, refusal
from airflow_cdc.core.errors import CdcError, SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.events.value import Values, Wire
from airflow_cdc.events.wire.avro import legal_name

# kind of source → how its values are written in events
_VALUES: Final[Mapping[str, Callable[[Mapping[str, str]], Values]]] = {
    "mysql": MySqlValues.from_config,
    "mariadb": MySqlValues.from_config,
    "postgres": PostgresValues.from_config,
}


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A setting that changes or hides rows: refused whenever `applies` to its value."""

    pattern: str
    why: str
    applies: Callable[[str], bool] = bool

    def matches(self, key: str, value: str) -> bool:
        return re.fullmatch(self.pattern, key) is not None and self.applies(value.strip())


def _row_operations(value: str) -> bool:
    return bool({"c", "u", "d"} & set(split_list(value)))


_REFUSED = (
    _Refusal(r"converters", "custom converters change values in ways that cannot be reproduced"),
    _Refusal(r"post\.processors", "post-processors change values in ways that cannot be reproduced"),
    _Refusal(
        r"snapshot\.select\.statement\.overrides",
        "the connector's snapshots would hold other rows than this provider's",
    ),
    _Refusal(r"gtid\.source\.(includes|excludes)", "changes of some servers are left out"),
    _Refusal(r"skipped\.operations", "row changes are left out", _row_operations),
    _Refusal(r"schema\.history\.internal\.skip\.unparseable\.ddl", "statements are silently skipped", is_true),
    _Refusal(r"schema\.history\.internal\.ddl\.filter", "matching statements are silently skipped"),
    _Refusal(r"slot\.drop\.on\.stop", "each stop drops the slot, and with it the log that was not read yet", is_true),
    _Refusal(r"value\.converter\.decimal\.format", "decimals arrive as JSON numbers", lambda v: v.upper() == "NUMERIC"),
    _Refusal(r"key\.converter\.decimal\.format", "decimals arrive as JSON numbers", lambda v: v.upper() == "NUMERIC"),
    _Refusal(
        r"producer\.override\.partitioner\.(class|ignore\.keys)",
        "changes of one key may land in several partitions",
        lambda v: v.lower() not in {"", "false"},
    ),
)

_UNREAD: Final[Mapping[Format, str]] = {
    Format.OTHER: "only JSON, Avro, JSON Schema and Protobuf can be decoded",
}
_TIMES: Final = "time.precision.mode"
_AVRO_NAMES: Final = "field.name.adjustment.mode=avro"
_RENAMES: Final = re.compile(
    r"field\.name\.adjustment\.mode=(?!none$).+|(key|value)\.converter\.scrub\.invalid\.names=true"
)

# Settings over columns: refused for a table only if they match one of its columns ("schema.table.column").
_EXCLUDED = r"column\.exclude\.list"
_INCLUDED = r"column\.include\.list"
_CHANGED = r"column\.(mask\.(hash|with)\..*|truncate\.to\..*)"
# the settings over columns, by name
COLUMN_RULES: Final = rf"{_EXCLUDED}|{_INCLUDED}|{_CHANGED}|message\.key\.columns"


def row_refusals(settings: Named) -> Iterator[CdcError]:
    """Why no table's rows can be taken from the events of a connector with these settings, each setting once."""
    converters = [read_converter(settings.known, side) for side in SIDES]
    for one in converters:
        yield from _converter_faults(one, settings.known)
    named = [one for one in converters if one.needs_registry and one.registry]
    if len({one.registry for one in named}) > 1:
        keys, values = named
        setting = registry_setting(values)
        why = f"keys have their schemas in another registry, {keys.registry}, and an id does not say which of the two it is of"
        yield refusal(setting, values.registry, why, f"Set {setting}={keys.registry}")
    for key, value in settings.known.items():
        yield from (refusal(key, value, one.why) for one in _REFUSED if one.matches(key, value))
    yield from (unseen_error(name, value) for name, value in settings.unseen_here.items())


def _converter_faults(one: Converter, settings: Mapping[str, str]) -> Iterator[CdcError]:
    """Why what a converter writes cannot be read, by its settings."""
    setting = f"{one.side}.converter"
    if why := _UNREAD.get(one.format):
        yield refusal(
            setting, one.name, why, f"Set {setting}={JSON}, or a converter that writes Avro, JSON Schema or Protobuf"
        )
    elif one.needs_ids and one.framing is None:
        why = "where a record has the id of its schema is left to another class"
        yield refusal(one.own_ids or setting, settings.get(one.own_ids, one.name), why)
    if one.format is Format.PROTOBUF:
        yield from _protobuf_faults(one, settings)


def _protobuf_faults(one: Converter, settings: Mapping[str, str]) -> Iterator[CdcError]:
    """A message has numbers for names, so it must be read by the very schema that wrote it. Connect's dates lose years."""
    if one.other_schema:
        why = "a message of Protobuf can be read by no other schema than its own"
        yield refusal(one.other_schema, settings[one.other_schema], why, f"Remove {one.other_schema}")
    if (mode := settings.get(_TIMES, "").strip()) == "connect":
        why = "Protobuf writes such dates in the calendar of their time, and without their era"
        yield refusal(_TIMES, mode, why, f"Set {_TIMES}=adaptive_time_microseconds, or isostring")


def renaming(settings: Named) -> tuple[str, ...]:
    """The settings by which fields have other names than their columns, as `name=value`."""
    hits = (
        f"{key}={value}"
        for key, value in settings.known.items()
        if _RENAMES.fullmatch(f"{key}={value.strip().lower()}")
    )
    return tuple(sorted(hits))


def check_names(
    renamed_by: Sequence[str], converters: Sequence[Converter], table: Table, added: Sequence[str] = ()
) -> None:
    """Refuse a table of which a column's name is changed in a way that cannot be followed. Raises SchemaError.

    `renamed_by`: as `renaming` gives it. `added`: further fields of its rows. Avro and Protobuf are read by the changed names;
    two columns must not get the same.
    """
    if not renamed_by:
        return
    followed = follows_names(renamed_by, converters)
    names = [column.name for column in table.mirrored]
    changed = [name for name in names if legal_name(name) != name]
    if followed:
        legal = Counter(map(legal_name, (*names, *added)))
        changed = [name for name in changed if legal[legal_name(name)] > 1]
    if changed:
        what = "gives one name to several columns" if followed else "changes names in a way that is not followed"
        raise SchemaError(
            f"the connector's {', '.join(renamed_by)} {what}: {', '.join(changed)}",
            where=f"table {table.full_name}",
            todo="Rename the columns, remove the setting, or remove the table from the pipeline.",
        )


def follows_names(renamed_by: Sequence[str], converters: Sequence[Converter]) -> bool:
    """Whether fields are to be read by the names that Avro allows."""
    return renamed_by == (_AVRO_NAMES,) and all(one.needs_registry for one in converters)


def check_nulls(converters: Sequence[Converter], values: Values, table: Table, added: Sequence[str] = ()) -> None:
    """Refuse a table of which a NULL would look like a zero, an empty text or an empty list. Raises SchemaError.

    Protobuf shows a NULL of a number, a text or bytes only by a setting, and one of a list never. `added`: as in check_names.
    """
    if all(one.format is not Format.PROTOBUF for one in converters if one.side == "value"):
        return
    shows = all(one.shows_null for one in converters if one.side == "value")
    wires = {column.name: values.value(column).shape.wire for column in table.mirrored if column.nullable}
    lists = [name for name, wire in wires.items() if wire is Wire.ARRAY]
    plain = [name for name, wire in wires.items() if wire not in {Wire.DECIMAL, Wire.STRUCT}]
    if names := lists or ([] if shows else [*plain, *added]):
        setting = f"value.converter.{NULLS_SHOWN[0]}=true"
        raise SchemaError(
            f"in Protobuf a NULL looks like {'an empty list' if lists else 'a zero or an empty text'}: {', '.join(names)}",
            where=f"table {table.full_name}",
            todo="Exclude the columns on the connector, or remove the table from the pipeline."
            if lists
            else f"Set {setting} on the connector, then recover the table.",
        )


def read_values(source: str, cfg: Mapping[str, str]) -> tuple[Values | None, CdcError | None]:
    """How a connector of such a source writes values, or why they cannot be decoded; neither for a source that is not known."""
    if source not in _VALUES:
        return None, None
    try:
        return _VALUES[source](cfg), None
    except CdcError as error:
        return None, error


def check_columns(rules: tuple[tuple[str, str], ...], table: Table) -> None:
    """Refuse a table of which a setting over columns masks or changes a column, or hides one of its key. Raises SchemaError."""
    for setting, value in rules:
        for column in table.key_columns if _leaves_out(setting) else table.mirrored:
            if _column_rule_hits(setting, value, table, column.name):
                _refuse_column(setting, table, column.name)


def without_left_out(rules: tuple[tuple[str, str], ...], table: Table) -> Table:
    """The table without the columns that a setting leaves out of its events. A column of the key stays: see check_columns."""
    leaving = [rule for rule in rules if _leaves_out(rule[0])]
    names = (column.name for column in table.columns if column.name not in table.key)
    return table.without(
        {name for name in names if any(_column_rule_hits(setting, value, table, name) for setting, value in leaving)}
    )


def _leaves_out(setting: str) -> bool:
    return re.fullmatch(rf"{_EXCLUDED}|{_INCLUDED}", setting) is not None


def _column_rule_hits(setting: str, value: str, table: Table, column: str) -> bool:
    full = f"{table.full_name}.{column}"
    if setting == "message.key.columns":
        return any(
            full_match(rule.partition(":")[0], table.full_name, ignore_case=True)
            for rule in value.split(";")
            if rule.strip()
        )
    listed = is_listed(value, full)
    return not listed if re.fullmatch(_INCLUDED, setting) else listed


def _refuse_column(setting: str, table: Table, column: str) -> NoReturn:
    what = (
        "changes the keys of the table's messages" if setting == "message.key.columns" else f"hides or changes {column}"
    )
    raise SchemaError(
        f"the connector's {setting} {what}, so its rows cannot be reproduced exactly",
        where=f"table {table.full_name}",
        todo=f"Remove {setting} for this table, or remove the table from the pipeline.",
    )
