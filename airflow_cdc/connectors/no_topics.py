"""The topics of a connector that keeps nothing of its own in topics."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_cdc.core.observation import Capture, ConnectorFacts, HistoryFacts
from airflow_cdc.core.ports import Transport
from airflow_cdc.core.table import Table


class NoTopics:
    """See core.ports.OwnTopics."""

    def with_elsewhere(self, name: str, facts: ConnectorFacts, topics: Transport) -> ConnectorFacts:  # noqa: ARG002
        """The facts as they are."""
        return facts

    def history(
        self,
        capture: Capture,  # noqa: ARG002
        topics: Transport,  # noqa: ARG002
        definitions: Mapping[str, Table],  # noqa: ARG002
    ) -> HistoryFacts | None:
        """None: its table definitions are kept elsewhere."""
        return None
