"""How long the stored position stays in the source's log, and whether log and topics outlast a snapshot."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from airflow_cdc.core.errors import ConfigError, UnknownStateError
from airflow_cdc.core.forecast import Forecast, snapshot_fits
from airflow_cdc.core.offset import StoredOffset
from airflow_cdc.core.position import Position
from airflow_cdc.flows.capture import topic_names
from airflow_cdc.flows.offsets import read, stored_value
from airflow_cdc.flows.run import Run, now_iso


@dataclass(frozen=True, slots=True)
class PipelineForecast:
    """A pipeline's forecast at one time.

    Attributes:
        position: the stored position, file:pos.
        warn_before_s: the policy's warning time; `at_risk` if less than that may be left.
        snapshot_s: how long reading the source takes: as long as last time, else the policy's max_duration.
        topics_keep_s: how long the topics keep an event at least; None if for ever.
        snapshot_fits: whether W, taken now, and the events after it outlive that.
    """

    pipeline: str
    taken_at: str
    position: str
    forecast: Forecast
    warn_before_s: int
    at_risk: bool
    snapshot_s: float
    topics_keep_s: float | None
    snapshot_fits: bool

    @property
    def exit_status(self) -> int:
        """The exit status of the command."""
        return 1 if self.at_risk or not self.snapshot_fits else 0

    def to_json(self) -> dict[str, object]:
        """Plain JSON, with the forecast's values on the same level."""
        value = asdict(self)
        return {**value, **value.pop("forecast")}


def forecast_pipeline(run: Run) -> PipelineForecast:
    """Read offset, log files and retention. Raises UnknownStateError without an offset, SourceError if it is gone."""
    offset, position = _stored(run)
    control = run.clients.control.facts()
    policy = run.pipeline.policy
    purge, retention = run.clients.source.forecast(position)
    seconds = float(policy.max_duration if control.read_seconds is None else control.read_seconds)
    topics = _topics_keep(run)
    return PipelineForecast(
        pipeline=run.pipeline.name,
        taken_at=now_iso(),
        position=offset.place,
        forecast=purge,
        warn_before_s=policy.warn_before_purge,
        at_risk=purge.earliest_s is not None and purge.earliest_s < policy.warn_before_purge,
        snapshot_s=seconds,
        topics_keep_s=topics,
        snapshot_fits=snapshot_fits(retention, seconds) and (topics is None or seconds < topics),
    )


def _topics_keep(run: Run) -> float | None:
    """The shortest retention of the pipeline's topics in seconds; None if all keep their events for ever, or have no names."""
    try:
        topics = set(topic_names(run, run.pipeline.source.tables).values())
    except ConfigError:  # the log's forecast holds without them
        return None
    configs = run.clients.transport.topic_configs(run.clients.transport.topic_states(sorted(topics)))
    durations = [
        int(one.get("retention.ms", -1)) for one in configs.values() if "delete" in one.get("cleanup.policy", "delete")
    ]
    return min((ms / 1000 for ms in durations if ms >= 0), default=None)


def _stored(run: Run) -> tuple[StoredOffset, Position]:
    value = stored_value(run)
    if not value:
        raise UnknownStateError(
            "the connector has no offset, so there is nothing to forecast",
            where=run.where,
            todo=f"Ask `airflow cdc diagnose {run.pipeline.name}` why.",
        )
    offset = read(run, value)
    assert offset.position is not None  # noqa: S101 - read() raises for a value without one
    return offset, offset.position
