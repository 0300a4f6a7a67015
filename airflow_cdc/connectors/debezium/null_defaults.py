"""A nullable column with a default, and a converter that writes the default where the row holds NULL.

Kafka Connect's JsonConverter does that unless `replace.null.with.default=false`. The setting counts only where the
connector names the converter itself: if it leaves the converter to its worker, Connect ignores the connector's
converter settings (seen on 4.3.1), and the worker's settings cannot be read over REST.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_cdc.core.table import Table

_REPLACES = "replace.null.with.default"
_SHOWN = 5

# column → its default at the source, as text; None: it has none
Defaults = Mapping[str, str | None]


def replaces_nulls(config: Mapping[str, str], side: str = "value") -> bool:
    """Whether this connector's converter may write a column's default where the row holds NULL."""
    named = bool(config.get(f"{side}.converter", "").strip())
    return not (named and config.get(f"{side}.converter.{_REPLACES}", "true").strip().lower() == "false")


def nulls_at_risk(table: Table, defaults: Defaults) -> tuple[str, ...]:
    """Columns of the table whose NULL such a converter replaces.

    A default that is an expression counts too: CURRENT_TIMESTAMP arrives as 1970-01-01 (seen on Debezium 3.6.1), others
    as NULL, and the text alone does not show which.
    """
    return tuple(c.name for c in table.mirrored if c.nullable and defaults.get(c.name) is not None)


@dataclass(frozen=True, slots=True)
class NullFault:
    """`columns` (schema.table.column) whose NULL arrives as their default.

    `settings`: what must be set on the connector, and a recovery may set. {} if the connector leaves its converter to
    the worker: naming the converter then requires knowing the worker's converter settings.
    """

    columns: tuple[str, ...]
    settings: Mapping[str, str]

    @property
    def what(self) -> str:
        """One sentence; a long list of columns is cut."""
        more = f" and {len(self.columns) - _SHOWN} more" if len(self.columns) > _SHOWN else ""
        return f"NULL in {', '.join(self.columns[:_SHOWN])}{more} arrives as the column's default"

    @property
    def todo(self) -> str:
        """The lines to add to the connector's configuration."""
        if self.settings:
            lines = ", ".join(f"{name}={value}" for name, value in self.settings.items())
            return (
                f"Set {lines} on the connector, then recover the tables; a recovery sets this itself where"
                " policy.set_converter is true."
            )
        return (
            f"The connector names no value.converter, and Connect ignores value.converter.{_REPLACES} without it."
            " Set value.converter=org.apache.kafka.connect.json.JsonConverter, value.converter.schemas.enable as the"
            f" worker has it, and value.converter.{_REPLACES}=false on the connector, then recover the tables."
        )


def null_fault(
    config: Mapping[str, str], definitions: Mapping[str, Table], defaults: Mapping[str, Defaults]
) -> NullFault | None:
    """What the connector's converter does to these tables' NULLs; None if nothing.

    A key holds no NULL, so its converter does no harm; it is set together with the value's, so that both are the same.
    """
    if not replaces_nulls(config):
        return None
    columns = tuple(
        f"{name}.{column}"
        for name, table in definitions.items()
        for column in nulls_at_risk(table, defaults.get(name, {}))
    )
    return NullFault(columns, _settings(config)) if columns else None


def _settings(config: Mapping[str, str]) -> dict[str, str]:
    if not config.get("value.converter", "").strip():
        return {}
    named = [side for side in ("key", "value") if config.get(f"{side}.converter", "").strip()]
    return {f"{side}.converter.{_REPLACES}": "false" for side in named if replaces_nulls(config, side)}
