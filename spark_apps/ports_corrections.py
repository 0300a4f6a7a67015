"""The ports of what is written into topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table
    from airflow_cdc.events.encoder import Encoder
    from airflow_cdc.events.frame import Seal, Standing
    from airflow_cdc.events.record import Record


@runtime_checkable
class WritesEvents(Protocol):
    """An EventDecoder whose connector's records can be written, too."""

    def encoder(self, table: Table) -> Encoder:
        """Makes changes of the table's rows. Raises SchemaError for a column that can't be written exactly."""
        ...

    def sealer(self, table: Table, template: Record, place: Standing) -> Seal:
        """Makes records of changes, as `template`, a record of the table's topic, is written."""
        ...
