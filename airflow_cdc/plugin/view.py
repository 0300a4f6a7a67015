"""What the page shows, computed only from stored observations and runs: nothing here contacts a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from airflow_cdc.alerting.severity import Severity, severity_of
from airflow_cdc.core.amounts import span
from airflow_cdc.core.errors import foreseen
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.plugin.action import Action, actions_for
from airflow_cdc.plugin.chart import Chart, purge_at, retention_chart
from airflow_cdc.plugin.colour import ORDER, SINK_DIFFERS, VERDICTS, Colour, colour_of, present_code
from airflow_cdc.plugin.running import RunningRun
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import (
    RECOVERY,
    RunSummary,
    Silence,
    StoredObservation,
    known_to_differ,
    verified_through,
)

STALE_SECONDS = 3600.0
EPOCH = datetime.fromtimestamp(0, UTC)
PAGE_ROWS = 50
_MEANINGS = {
    "NOT_OBSERVED": "Nobody has diagnosed this pipeline yet.",
    "RECOVERED": "A run ended with MATCH after this problem was observed; the pipeline has not been diagnosed since.",
}
# what pages read of a row
_COMPUTED = (
    "actions", "unreachable", "data_age", "data_lag", "urgency", "last_runs", "chart", "purge_in", "left", "forecast"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One pipeline in the overview. `seen` is None if there is no readable observation."""

    name: str
    code: str
    meaning: str
    colour: Colour
    seen: StoredObservation | None
    age: str
    stale: bool
    since: str
    runs: Sequence[RunSummary]
    error: str = ""
    has_sink: bool = True
    own_dags: bool = False
    owner: str = ""
    tags: tuple[str, ...] = ()
    silence: Silence | None = None
    running: RunningRun | None = None
    now: datetime = EPOCH

    @property
    def last_recovery(self) -> RunSummary | None:
        """The newest recovery."""
        return next((run for run in self.runs if run.kind == RECOVERY), None)

    @property
    def last_check(self) -> RunSummary | None:
        """The newest comparison without a recovery: a nightly check, a repair or a backfill."""
        return next((run for run in self.runs if run.kind != RECOVERY), None)

    @property
    def verified_through(self) -> Mapping[str, str]:
        """Table → the source's time (ISO) up to which main was proven equal."""
        return verified_through(self.runs)

    @property
    def actions(self) -> tuple[Action, ...]:
        """The buttons, the most suitable first."""
        diagnosis = self.seen.diagnosis if self.seen else None
        actions = actions_for(self.code, diagnosis, has_sink=self.has_sink, running=self.running)
        return tuple(one.of_pipeline(self.name) for one in actions) if self.own_dags else actions

    @property
    def unreachable(self) -> Mapping[str, str]:
        """Part that could not be read at the last observation → why: "source", "connector" and the like."""
        return self.seen.unknowns if self.seen else {}

    @property
    def data_age(self) -> str:
        """The source's time (ISO) up to which every table of main is proven equal; "" while any is not."""
        return min(self.verified_through.values(), default="")

    @property
    def data_lag(self) -> str:
        """The age of the data proven equal in main: "3 h"; "" while nothing is proven."""
        return span(max(0.0, seconds_since(self.data_age, self.now))) if self.data_age else ""

    @property
    def expected(self) -> str:
        """When the running run ends if it takes as long as similar ones did; "" if this is not known."""
        end = self.running.ends_about(self.runs) if self.running else None
        if end is None:
            return ""
        left = (end - self.now).total_seconds()
        return f"ends in about {span(left)}" if left > 0 else f"has taken {span(-left)} longer than the last one"

    @property
    def urgency(self) -> str:
        """How urgent the problem is, in the notifications' word for it; "" for problems that only the page shows."""
        if self.colour is Colour.GREEN or self.error:
            return ""
        observed = self.seen is not None and self.seen.diagnosis.code == self.code
        if not observed and self.code != SINK_DIFFERS:
            return ""
        return str(severity_of(self.code, self.seen.diagnosis.strategies if self.seen and observed else ()))

    @property
    def last_runs(self) -> tuple[tuple[RunSummary, str], ...]:
        """The newest recovery and the newest other run, each with its age, the newer first."""
        known = [run for run in (self.last_recovery, self.last_check) if run]
        return tuple(
            (run, ago(run.ended_at, self.now).removesuffix(" ago"))
            for run in sorted(known, key=lambda run: run.ended_at, reverse=True)
        )

    @property
    def chart(self) -> Chart | None:
        """The retention over time."""
        return retention_chart(self.seen)

    @property
    def purge(self) -> str:
        """The earliest moment at which the position may be purged (ISO); "" if none is forecast."""
        moment = purge_at(self.seen) if self.seen else None
        return moment.isoformat() if moment else ""

    @property
    def purge_in(self) -> str:
        """The time from now until then: "2 h"; "0 s" once it has passed."""
        return span(max(0.0, -seconds_since(self.purge, self.now))) if self.purge else ""

    @property
    def left(self) -> int | None:
        """The percentage of the kept log before the stored position; None if unknown."""
        return None if self.seen is None or self.seen.retention is None else round(100 * self.seen.retention.left)

    @property
    def forecast(self) -> str:
        """The forecast in one line; "" if none is stored."""
        forecast = self.seen.forecast if self.seen else None
        if forecast is None or forecast.earliest_s is None:
            return forecast.basis if forecast else ""
        return f"purged in {span(forecast.earliest_s)} at the earliest ({forecast.basis})"


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a timeline: the problem changed, or a run ended."""

    at: str
    colour: Colour
    code: str
    run: RunSummary | None = None


def overview(
    store: ReportStore,
    names: Sequence[str],
    now: datetime,
    declared: Mapping[str, Pipeline] | None = None,
    running: Mapping[str, RunningRun] | None = None,
) -> list[Row]:
    """One row per pipeline, the worst first; `declared`: the registry. `running`: pipeline → its running run."""
    known, live = declared or {}, running or {}
    rows = store.many(lambda name: row(store, name, now, known.get(name), live.get(name)), names).values()
    return sorted(rows, key=_urgency)


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of the overview: `rows`, out of `total` that match the search."""

    rows: Sequence[Row]
    total: int
    page: int
    pages: int
    query: str = ""
    state: str = ""
    owner: str = ""
    tag: str = ""


def listing(
    rows: Sequence[Row], query: str = "", state: str = "", page: int = 1, *, owner: str = "", tag: str = ""
) -> Listing:
    """The rows whose name, problem or unreachable system holds `query`, of the colour `state`, of the `owner` and with the
    `tag`, `PAGE_ROWS` at a time.
    """
    fitting = [
        one
        for one in rows
        if (not state or one.colour == state)
        and (not owner or one.owner == owner)
        and (not tag or tag in one.tags)
        and query.casefold() in _words(one)
    ]
    pages = max(1, -(-len(fitting) // PAGE_ROWS))
    shown = min(max(1, page), pages)
    return Listing(
        fitting[(shown - 1) * PAGE_ROWS : shown * PAGE_ROWS], len(fitting), shown, pages, query, state, owner, tag
    )


def _words(one: Row) -> str:
    return " ".join(
        (one.name, one.owner, *one.tags, one.code, one.meaning, *one.unreachable, *one.unreachable.values())
    ).casefold()


def _urgency(one: Row) -> tuple[int, bool, int, str]:
    """The worst colour first; then unacknowledged before acknowledged, and loss of rows before mere standstill."""
    observed = one.seen is not None and one.seen.diagnosis.code == one.code
    severity = severity_of(one.code, one.seen.diagnosis.strategies if one.seen and observed else ())
    return ORDER.index(one.colour), one.silence is not None, tuple(Severity).index(severity), one.name


def row(
    store: ReportStore,
    name: str,
    now: datetime,
    declared: Pipeline | None = None,
    running: RunningRun | None = None,
) -> Row:
    """The stored facts of one pipeline; an unreadable file is mentioned, and the pipeline is then unknown."""
    known = _readable(store, name, now)
    has_sink = declared is None or declared.has_sink
    owner, tags, own_dags = (declared.owner, declared.tags, declared.airflow.own_dags) if declared else ("", (), False)
    return replace(known, has_sink=has_sink, own_dags=own_dags, owner=owner, tags=tags, running=running, now=now)


def misdeclared(name: str, error: str) -> Row:
    """The row of a pipeline that is declared badly: nobody watches it, and it has no DAGs until that is corrected."""
    meaning = "It is declared badly in pipelines.yaml, so nothing watches or applies it."
    return Row(name, "UNKNOWN", meaning, Colour.AMBER, None, "", stale=True, since="", runs=(), error=error)


def _readable(store: ReportStore, name: str, now: datetime) -> Row:
    """The row; that of an unknown pipeline if anything in its files, or anything that a page computes of it, is odd."""
    try:
        row = _row(name, store.observation(name), store.runs(name), now)
        row = replace(row, silence=store.silence(name, row.code, now.isoformat()), now=now)
        for computed in _COMPUTED:
            getattr(row, computed)
        _urgency(row)
        timeline(row)
    except Exception as error:
        meaning, why = "The stored state of this pipeline cannot be read.", str(foreseen(error, "reading it"))
        return Row(name, "UNKNOWN", meaning, Colour.AMBER, None, "", stale=True, since="", runs=(), error=why)
    return row


def _row(name: str, observation: StoredObservation | None, runs: Sequence[RunSummary], now: datetime) -> Row:
    code = present_code(observation, runs)
    stale = observation is None or seconds_since(observation.taken_at, now) > STALE_SECONDS
    colour = colour_of(
        code, observation.diagnosis.strategies if observation and code == observation.diagnosis.code else ()
    )
    return Row(
        name=name,
        code=code,
        meaning=_meaning(code, observation, runs),
        # green is a claim about now, which an old observation cannot support
        colour=Colour.AMBER if stale and colour is Colour.GREEN else colour,
        seen=observation,
        age=ago(observation.taken_at, now) if observation else "",
        stale=stale,
        since=ago(observation.since, now) if observation else "",
        runs=runs,
    )


def _meaning(code: str, observation: StoredObservation | None, runs: Sequence[RunSummary]) -> str:
    if code == SINK_DIFFERS:
        return f"A check found rows that differ from the source, and no later check found them equal: {', '.join(known_to_differ(runs))}."
    return _MEANINGS.get(code) or (observation.diagnosis.description if observation else "")


def timeline(one: Row) -> list[Event]:
    """Changes of the problem and runs, newest first."""
    changes = [
        Event(change.at, colour_of(change.code), change.code) for change in (one.seen.changes if one.seen else ())
    ]
    runs = [Event(run.ended_at, VERDICTS[run.verdict], str(run.verdict), run) for run in one.runs]
    return sorted((*changes, *runs), key=lambda event: datetime.fromisoformat(event.at), reverse=True)


def counts(rows: Sequence[Row]) -> Mapping[Colour, int]:
    """How many pipelines are red, amber and green."""
    return {colour: sum(one.colour is colour for one in rows) for colour in ORDER}


def seconds_since(at: str, now: datetime) -> float:
    """Seconds from an ISO time to `now`."""
    return (now - datetime.fromisoformat(at)).total_seconds()


def ago(at: str, now: datetime) -> str:
    """An ISO time as an age: "3 min ago"."""
    return f"{span(max(0.0, seconds_since(at, now)))} ago"


def clock(at: str) -> str:
    """An ISO time as a person reads it, in UTC."""
    return datetime.fromisoformat(at).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def size(count: float) -> str:
    """A number of bytes in a suitable unit."""
    amount, units = float(count), ("B", "KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if amount < 1024 or unit == units[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError
