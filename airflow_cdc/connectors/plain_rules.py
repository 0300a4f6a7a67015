"""Rules of a connector that hands on what the log holds and keeps no table definitions in topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_cdc.core.capture import CaptureSettings, Defaults, Look, Newest, NullFault, TableDefinitions, Topics
from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.table import Table


@dataclass(frozen=True, slots=True)
class PlainRules:
    """See core.capture.ConfigRules.

    Attributes:
        title: the connector's name, as a person reads it.
        read: parses its settings.
    """

    title: str
    read: Callable[[Mapping[str, str]], CaptureSettings]

    def capture(self, config: Mapping[str, str]) -> CaptureSettings:
        """The settings, parsed."""
        return self.read(config)

    def may_replace_nulls(self, config: Mapping[str, str]) -> bool:  # noqa: ARG002
        """False: it sends NULL where the row holds NULL."""
        return False

    def null_fault(
        self,
        config: Mapping[str, str],  # noqa: ARG002
        definitions: Mapping[str, Table],  # noqa: ARG002
        defaults: Mapping[str, Defaults],  # noqa: ARG002
    ) -> NullFault | None:
        """None: see may_replace_nulls."""
        return None

    def written(
        self,
        config: Mapping[str, str],  # noqa: ARG002
        subject: str,  # noqa: ARG002
        tables: Sequence[str],  # noqa: ARG002
        newest: Callable[[Sequence[str]], Newest],  # noqa: ARG002
    ) -> Sequence[Check]:
        """None: its own settings say how it writes."""
        return ()

    def looks(self, table: Table, capture: CaptureSettings) -> Iterator[Look]:  # noqa: ARG002
        """None: whether a column is carried does not depend on its values."""
        return iter(())

    def dated_columns(self, table: Table) -> Sequence[str]:  # noqa: ARG002
        """None: every year arrives as it is."""
        return ()

    def doubted_columns(self, table: Table) -> Sequence[str]:  # noqa: ARG002
        """None: text that is not carried whole is refused."""
        return ()

    def definitions(self, capture: CaptureSettings, topics: Topics) -> TableDefinitions:  # noqa: ARG002
        """Raises ConnectorError: there are none."""
        raise ConnectorError(f"{self.title} keeps no table definitions in topics", todo="No recovery reads them.")
