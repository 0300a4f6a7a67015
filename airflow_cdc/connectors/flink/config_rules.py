"""What the options of a Flink job's sources do to names, keys and values (core/capture.py). No decoder of its events asks the rest yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_cdc.connectors.flink.capture import FlinkCapture
from airflow_cdc.core.capture import CaptureSettings, ConfigRules, Defaults, Look, NullFault, TableDefinitions, Topics
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.table import Table


class FlinkConfigRules:
    """See core.capture.ConfigRules."""

    def capture(self, config: Mapping[str, str]) -> FlinkCapture:
        """The settings, parsed."""
        return FlinkCapture.from_config(config)

    def may_replace_nulls(self, config: Mapping[str, str]) -> bool:  # noqa: ARG002
        """It hands on NULL as NULL."""
        return False

    def null_fault(
        self,
        config: Mapping[str, str],  # noqa: ARG002
        definitions: Mapping[str, Table],  # noqa: ARG002
        defaults: Mapping[str, Defaults],  # noqa: ARG002
    ) -> NullFault | None:
        """None: see may_replace_nulls."""
        return None

    def looks(self, table: Table, capture: CaptureSettings) -> Iterator[Look]:  # noqa: ARG002
        """None: no rows are read for a pipeline whose events are not decoded."""
        return iter(())

    def dated_columns(self, table: Table) -> Sequence[str]:  # noqa: ARG002
        """None: see looks."""
        return ()

    def doubted_columns(self, table: Table) -> Sequence[str]:  # noqa: ARG002
        """None: see looks."""
        return ()

    def definitions(self, capture: CaptureSettings, topics: Topics) -> TableDefinitions:  # noqa: ARG002
        """Raises ConnectorError: Flink CDC keeps no definitions in topics."""
        raise ConnectorError("Flink CDC keeps no table definitions in topics", todo="No recovery reads them.")


RULES: ConfigRules = FlinkConfigRules()
