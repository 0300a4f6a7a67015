"""How the events of a pipeline are written, as the topics' newest records show it, before rows are read or events applied."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import config_rules_of


def look_at_events(run: Run, tables: Sequence[str] = ()) -> Sequence[Check]:
    """What was seen, one line for each way in which topics are written. Raises ConfigError, TransportError."""
    config = run.clients.connector.raw_config(run.pipeline.connector.name)
    names = list(tables or run.pipeline.source.tables)
    return config_rules_of(run.pipeline).written(config, run.pipeline.name, names, run.clients.transport.newest)


def refuse_unreadable(run: Run, tables: Sequence[str] = ()) -> Sequence[str]:
    """Raise one ConfigError for all topics that can't be read as they are written (INV 41); returns what is not known."""
    seen = look_at_events(run, tables)
    if bad := [one for one in seen if one.state == "bad"]:
        raise ConfigError(
            "events cannot be read: " + "; ".join(one.found for one in bad), where=run.where, todo=bad[0].todo
        )
    return [one.found for one in seen if one.state == "unknown"]
