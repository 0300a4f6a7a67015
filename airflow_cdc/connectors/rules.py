"""What the rules of several connectors share: those of one that hands on what the log holds, and the doctor's checks of how a position moves.

A stored position moves by heartbeats while nothing is written. Each kind names its own settings for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_cdc.core.capture import CaptureSettings, Defaults, Look, Newest, NullFault, TableDefinitions, Topics
from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.table import Table

# a shorter one makes Debezium's reader re-read large transactions, and lose the rest of one if its worker dies then
KEEP_ALIVE_FLOOR_MS: Final = 30_000
QUICK_HEARTBEAT_MS: Final = "1000"
# on a quiet source a recovery waits for one and meanwhile keeps the hold
SLOWEST_HEARTBEAT_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class PlainRules:
    """See core.capture.ConfigRules: of a connector that keeps no table definitions in topics.

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


def quick_heartbeats(setting: str, interval_ms: int) -> dict[str, str]:
    """The setting that makes heartbeats of `interval_ms` quick enough for a recovery; {} if they are.

    Only heartbeats: with a small keep-alive an idle connector would report its position sooner, but Debezium then mistakes a
    reader that waits for a full queue for a lost connection, and reads the transaction again.
    """
    return {} if 0 < interval_ms <= SLOWEST_HEARTBEAT_MS else {setting: QUICK_HEARTBEAT_MS}


def heartbeat_check(subject: str, interval_ms: int, setting: str) -> Check:
    """Whether heartbeats are sent. `setting`: how they are switched on, in the words of the kind."""
    todo = f"Let the connector send heartbeats ({setting}): without them, the offset of a quiet table is not moved and will be purged."
    if interval_ms > 0:
        return Check(subject, "heartbeat", "ok", f"every {interval_ms} ms")
    return Check(subject, "heartbeat", "warn", "none", todo)


def keep_alive_check(subject: str, interval_ms: int, setting: str) -> Check:
    """Whether the reader waits long enough before it takes a full queue for a lost connection."""
    good = interval_ms >= KEEP_ALIVE_FLOOR_MS
    todo = "" if good else "Remove it (the default is 60000): a full queue is mistaken for a lost connection."
    return Check(subject, "keep-alive", "ok" if good else "warn", f"{setting}={interval_ms}", todo)
