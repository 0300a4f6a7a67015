"""What some connectors do not have: something of their own in topics, and settings that we may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NoReturn

from airflow_cdc.core.endpoint import Login
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.observation import Capture, ConnectorFacts, HistoryFacts
from airflow_cdc.core.ports import SchemaTexts, Transport
from airflow_cdc.core.table import Table


class NoTopics:
    """See core.ports.OwnTopics."""

    def with_elsewhere(
        self,
        name: str,  # noqa: ARG002
        facts: ConnectorFacts,
        topics: Transport,  # noqa: ARG002
        texts: SchemaTexts | None = None,  # noqa: ARG002
    ) -> ConnectorFacts:
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


class TheirSettings:
    """Settings that are files of the connector's operator; see core.ports.Connector.

    `unchanged`: how a message names them, with the connector's {name}, and what a person does instead.
    """

    unchanged: ClassVar[tuple[str, str]]

    @property
    def where(self) -> str:
        raise NotImplementedError

    def change_config(self, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Raises ConnectorError, unless nothing would be changed."""
        if dict(before) != dict(after):
            self._not_ours(name)

    def rebuilding(self, name: str) -> Mapping[str, str]:  # noqa: ARG002
        """None: it keeps no definitions that a start could read again."""
        return {}

    def is_away(self, name: str) -> bool:  # noqa: ARG002
        """Never: see point_at."""
        return False

    def point_at(self, name: str, there: Login, home: Login) -> None:  # noqa: ARG002
        """Raises ConnectorError."""
        self._not_ours(name)

    def point_back(self, name: str) -> None:
        """Nothing to do: see point_at."""

    def _not_ours(self, name: str) -> NoReturn:
        what, todo = self.unchanged
        raise ConnectorError(f"{what.format(name=name)} are not changed from here", where=self.where, todo=todo)
