"""What Canal's settings do to names, keys and values (core/capture.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_cdc.connectors.canal.capture import CanalCapture
from airflow_cdc.core.capture import CaptureSettings, ConfigRules, Defaults, Look, NullFault, TableDefinitions, Topics
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.table import Table


class CanalConfigRules:
    """See core.capture.ConfigRules."""

    def capture(self, config: Mapping[str, str]) -> CanalCapture:
        """The settings, parsed."""
        return CanalCapture.from_config(config)

    def may_replace_nulls(self, config: Mapping[str, str]) -> bool:  # noqa: ARG002
        """It writes null where the row holds NULL."""
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
        """None: whether a column is carried does not depend on its values."""
        return iter(())

    def dated_columns(self, table: Table) -> Sequence[str]:  # noqa: ARG002
        """None: every year arrives as it is."""
        return ()

    def doubted_columns(self, table: Table) -> Sequence[str]:  # noqa: ARG002
        """None: text that is not carried whole is refused."""
        return ()

    def definitions(self, capture: CaptureSettings, topics: Topics) -> TableDefinitions:  # noqa: ARG002
        """Raises ConnectorError: Canal keeps no definitions in topics."""
        raise ConnectorError("Canal keeps no table definitions in topics", todo="No recovery reads them.")


RULES: ConfigRules = CanalConfigRules()
