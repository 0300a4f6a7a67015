"""A nullable column with a default, and a converter or a transform that writes the default where the row holds NULL.

Kafka Connect's JsonConverter does that unless `replace.null.with.default=false`, Confluent's converters unless
`ignore.default.for.nullables=true`, Apicurio's AvroConverter always, and ExtractNewRecordState where it adds anything to a
row. A converter's setting counts only where the connector names the converter itself: if it leaves the converter to its
worker, Connect ignores the connector's converter settings (seen on 4.3.1), and the worker's cannot be read over REST.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_cdc.connectors.debezium.converters import Converter, read_converter
from airflow_cdc.connectors.debezium.names import by_todays_names
from airflow_cdc.connectors.debezium.routing import read_transforms
from airflow_cdc.core.table import Table

_REPLACES = "replace.null.with.default"
_SHOWN = 5

# column → its default at the source, as text; None: it has none
Defaults = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class _Writers:
    """What may write a default in place of a NULL: the converters of both sides, and transforms that copy rows, by name."""

    key: Converter
    value: Converter
    copying: tuple[str, ...]
    old: bool = False  # the transforms are those of Debezium 1.x, which have no setting against it

    @classmethod
    def of(cls, config: Mapping[str, str]) -> _Writers:
        settings = by_todays_names(config)
        transforms = read_transforms(settings.known, old=settings.old)
        copying = tuple(form.name for form in transforms.flattened if form.null_becomes_default)
        key, value = (read_converter(settings.known, side) for side in ("key", "value"))
        return cls(key, value, copying, old=settings.old)

    @property
    def replace_nulls(self) -> bool:
        return self.value.replaces_null or bool(self.copying)

    @property
    def unstoppable(self) -> str:
        """The transform that does it, and has no setting against it; "" if there is none."""
        return self.copying[0] if self.old and self.copying else ""

    @property
    def settings(self) -> dict[str, str]:
        """What ends it; {} if no setting of the connector does."""
        if (self.value.replaces_null and not self.value.keeps_null) or self.unstoppable:
            return {}
        both = (one.keeps_null for one in (self.key, self.value) if one.replaces_null)
        own = {name: text for one in both for name, text in one.items()}
        return own | {f"transforms.{name}.{_REPLACES}": "false" for name in self.copying}


def replaces_nulls(config: Mapping[str, str]) -> bool:
    """Whether this connector may write a column's default where the row holds NULL."""
    return _Writers.of(config).replace_nulls


def nulls_at_risk(table: Table, defaults: Defaults) -> tuple[str, ...]:
    """Columns of the table whose NULL such a converter replaces.

    A default that is an expression counts too: CURRENT_TIMESTAMP arrives as 1970-01-01 (seen on Debezium 3.6.1), others
    as NULL, and the text alone does not show which.
    """
    return tuple(c.name for c in table.mirrored if c.nullable and defaults.get(c.name) is not None)


@dataclass(frozen=True, slots=True)
class NullFault:
    """`columns` (schema.table.column) whose NULL arrives as their default, and their `tables`.

    `settings`: what must be set on the connector, and a recovery may set. {} if the connector leaves its converter to
    the worker: naming the converter then requires knowing the worker's converter settings. Also {} if its own
    `converter`, or its `transform`, has no such setting.
    """

    columns: tuple[str, ...]
    settings: Mapping[str, str]
    converter: str = ""
    tables: frozenset[str] = frozenset()
    transform: str = ""

    @property
    def what(self) -> str:
        """One sentence; a long list of columns is cut."""
        more = f" and {len(self.columns) - _SHOWN} more" if len(self.columns) > _SHOWN else ""
        return f"NULL in {', '.join(self.columns[:_SHOWN])}{more} arrives as the column's default"

    @property
    def todo(self) -> str:
        """The lines to add to the connector's configuration."""
        if self.transform:
            return (
                f"transforms.{self.transform} of Debezium 1.x has no setting by which a NULL stays NULL: take the transform away,"
                " drop the columns' defaults, make them NOT NULL, or run a newer Debezium. Then recover the tables."
            )
        if self.settings:
            lines = ", ".join(f"{name}={value}" for name, value in self.settings.items())
            return (
                f"Set {lines} on the connector, then recover the tables; a recovery sets this itself where"
                " policy.set_converter is true."
            )
        return (
            f"{self.converter} has no setting by which a NULL stays NULL. Let the connector write JSON, drop the columns'"
            " defaults, or make them NOT NULL."
            if self.converter
            else f"The connector names no value.converter, and Connect ignores value.converter.{_REPLACES} without it."
            " Set value.converter=org.apache.kafka.connect.json.JsonConverter, value.converter.schemas.enable as the"
            f" worker has it, and value.converter.{_REPLACES}=false on the connector, then recover the tables."
        )


def null_fault(
    config: Mapping[str, str], definitions: Mapping[str, Table], defaults: Mapping[str, Defaults]
) -> NullFault | None:
    """What the connector's converter does to these tables' NULLs; None if nothing.

    A key holds no NULL, so its converter does no harm; it is set together with the value's, so that both are the same.
    """
    writers = _Writers.of(config)
    if not writers.replace_nulls:
        return None
    at_risk = {name: nulls_at_risk(table, defaults.get(name, {})) for name, table in definitions.items()}
    columns = tuple(f"{name}.{column}" for name, own in at_risk.items() for column in own)
    tables = frozenset(name for name, own in at_risk.items() if own)
    if not columns:
        return None
    return NullFault(columns, writers.settings, writers.value.name, tables, writers.unstoppable)
