"""A Flink job: one reading of its state, its sources' options and its stored offset; stopping, starting, moving it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Self

from airflow_cdc.answers import explained
from airflow_cdc.connectors.flink.capture import FlinkCapture, flat
from airflow_cdc.connectors.flink.checkpoint import SourceOffset, existing, read_checkpoint
from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.flink.job import FAILED, STOPPED, Checkpoints, Job, job_state
from airflow_cdc.connectors.flink.offset import FlinkCodec
from airflow_cdc.connectors.flink.plan import BY_YAML, YAML_BY_HAND, Plan
from airflow_cdc.connectors.flink.rest import FlinkRest
from airflow_cdc.connectors.flink.start import Start, StartFile, StartStore
from airflow_cdc.connectors.without import NoTopics, TheirSettings
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import ConnectorError, DeadlineError
from airflow_cdc.core.observation import ConnectorFacts, ConnectorState
from airflow_cdc.core.offset import OffsetCodec, OffsetEntry, OffsetStore, RawOffset
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.core.secrets import mask_config
from airflow_cdc.core.text import root_cause

START_SECONDS: Final = 180.0
# a source that cannot read from its position fails within 3 s of its start (seen); until then its job reports RUNNING
_PROVEN_MS: Final = 6_000
# a diagnosis watches for 12 s, and REST answers were seen to be 3 s old: a job that works must store two positions meanwhile
_WATCHABLE_MS: Final = 4_000
# after that long an answer tells of a failure that was there when it was asked for the first time
_FRESH_SECONDS: Final = 6.0


@dataclass(frozen=True, slots=True)
class FlinkFacts(ConnectorFacts):
    """What a diagnosis knows of a Flink job beside what it knows of any connector.

    Attributes:
        jobs: the ids of all jobs of this name that have not ended.
        checkpoint_ms: how often it stores its state; None: it never does.
        deleted_on_cancel: whether its stored state goes away when the job is cancelled.
        restarts: how often Flink restarted it, by its exceptions; strategy: how it restarts it.
        sources: how many sources of MySQL's log it has, each with a position of its own.
        by_yaml: whether it was made from a pipeline YAML of Flink CDC.
    """

    jobs: tuple[str, ...] = ()
    checkpoint_ms: int | None = None
    deleted_on_cancel: bool = False
    restarts: int = 0
    strategy: str = ""
    sources: int = 1
    by_yaml: bool = False


@explained(ConnectorError, "Flink")
class FlinkConnector(TheirSettings):
    """The jobs of one Flink cluster, by their names."""

    unchanged = ("the options of job {name}", "Stop the job, change its compiled plan by hand, and start it.")

    def __init__(self, endpoint: FlinkEndpoint, codec: FlinkCodec) -> None:
        self.endpoint = endpoint
        self._codec = codec
        self._rest = FlinkRest(endpoint)
        self._file = StartFile.beside(endpoint.plan)

    @property
    def where(self) -> str:
        """How messages name the cluster."""
        return self.endpoint.where

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return type(self)(self.endpoint.limited(limits), self._codec)

    def reach(self) -> None:
        """Raises ConnectorError unless the JobManager answers."""
        self._rest.overview()

    @property
    def codec(self) -> OffsetCodec:
        """How its offsets are read and made."""
        return self._codec

    @property
    def own_topics(self) -> NoTopics:
        """See NoTopics."""
        return NoTopics()

    # ---- what is known

    def raw_config(self, name: str) -> Mapping[str, str]:
        """The options of its sources with their secrets, from its plan; the name alone without one."""
        if not self.endpoint.plan:
            return flat(name, ())
        plan = self._plan().of(self.endpoint.reads)
        return flat(name, plan.sources, plan.between)

    def state(self, name: str) -> ConnectorState:
        """RUNNING with one task, which is FAILED while the job's exceptions say so, whatever Flink calls the job.

        Flink calls a job RESTARTING or RUNNING while its source fails again and again; it is FAILED only when its
        restart strategy gives up.
        """
        return self._state(name, self._job(name))

    def facts(self, name: str) -> FlinkFacts:
        """State, options and stored offset. Raises ConnectorError."""
        live, job = self._live(name), self._job(name)
        state, config = self._state(name, job), self.raw_config(name)
        offsets = self._stored(name)
        stops = self._rest.checkpoint_settings(job.id) if job else {}
        capture = FlinkCapture.from_config(config)
        key = {"server": name}
        interval = None if stops is None else int(stops.get("interval", 0))
        return FlinkFacts(
            state=state.state,
            tasks=state.tasks,
            config=mask_config(config),
            offset=self._codec.read(offsets[0].raw, key) if offsets else None,
            key=key if offsets else None,
            offsets_count=len(offsets),
            address=_address(config),
            # a position that is stored seldom cannot be told from one that stands still
            heartbeats=bool(capture.heartbeat_ms) and interval is not None and interval <= _WATCHABLE_MS,
            capture=capture,
            jobs=tuple(one.id for one in live),
            checkpoint_ms=interval,
            deleted_on_cancel=bool(stops and stops["externalization"]["delete_on_cancellation"]),
            restarts=job.restarts if job else 0,
            strategy=self._strategy(job),
            sources=max(1, len(offsets)),
            by_yaml=bool(job and job.by_yaml),
        )

    # ---- stop and start

    def stop(self, name: str, *, timeout: float = 60.0) -> None:
        """Stop the job with a savepoint; one that fails is cancelled, and its last checkpoint takes the place of it.

        One that Flink has given up is only noted as stopped: Flink goes on to call it FAILED.
        """
        job = self._one_live(name)
        if job is None:
            self._rest_from_now(name)
            return
        savepoint = "" if job.failure else self._savepoint(job, timeout)
        if not savepoint:
            self._cancel(self._rest_job(job.id))

        def gone() -> Job:
            now = self._rest_job(job.id)
            # its answers are up to 3 s old
            if not Job.has_ended(now.status) or (savepoint and now.checkpoints.newest_own != savepoint):
                raise NotYet(f"job {job.id} is {now.status}")
            return now

        last = poll_until(gone, timeout=timeout, interval=0.3, what=f"job {name} to end")
        start = Start(last.now, savepoint) if savepoint else self._of(last)
        self._note(replace(start, at=last.now))

    def resume(self, name: str) -> None:
        """Start the job from what was decided for it, or from its newest savepoint or checkpoint."""
        if self._one_live(name) is not None:
            return
        self._by_statement(name)
        plan, start = self._plan(), self._next(name)
        properties = {"pipeline.name": name, **dict(text.split("=", 1) for text in self.endpoint.session)}
        # without a state of rows nothing has to be kept, unless the offset is as old as the state: a sink's would commit
        # files that it had not committed, over rows that were written since
        if start.savepoint and (start.offset is None or start.same or start.reads or plan.keeps):
            properties["execution.state-recovery.path"] = start.savepoint
        if start.offset is not None:
            start = self._replanned(plan, start, start.offset)
            properties["execution.state-recovery.ignore-unclaimed-state"] = "true"
        self._note(replace(start, job=self._rest.execute_plan(plan.path, properties, START_SECONDS)))

    def wait_running(self, name: str, *, timeout: float = 120.0) -> None:
        """Return when it runs, has stored its state, and did not fail in the time in which a lost position shows."""

        def running() -> bool:
            state = self.state(name)
            if state.failures:
                raise ConnectorError(
                    f"job {name} does not read: {root_cause(state.failures[0])[:500]}",
                    where=self.where,
                    todo="`airflow cdc diagnose` says what it means.",
                )
            job = self._one_live(name)
            if job is None or not job.runs_for(_PROVEN_MS) or not job.checkpoints.completed:
                raise NotYet(f"it is {job.status if job else 'not there'}, or has not stored its state yet")
            return True

        poll_until(running, timeout=timeout, interval=0.5, what=f"job {name} to run")

    def restart(self, name: str) -> None:
        """Stop and start the job."""
        self.stop(name)
        self.resume(name)

    # ---- offsets

    def entries(self, name: str) -> tuple[OffsetEntry, ...]:
        """The offset of each of its sources, the least first."""
        first, *others = self._stored(name) or (None,)
        own = (OffsetEntry({"server": name}, first.raw),) if first else ()
        rest = (OffsetEntry({"server": name, "tables": ",".join(one.tables)}, one.raw) for one in others if one)
        return (*own, *rest)

    def committed_offset(self, name: str, server: str) -> RawOffset | None:  # noqa: ARG002
        """The least offset of its sources."""
        offsets = self._stored(name)
        return offsets[0].raw if offsets else None

    def offset_store(self, name: str, key: RawOffset) -> OffsetStore:  # noqa: ARG002
        """What its next start begins from."""

        def stored(savepoint: str) -> RawOffset | None:
            offsets = self._in(savepoint)
            return offsets[0].raw if len(offsets) == 1 else None

        def committed() -> RawOffset | None:
            return self.committed_offset(name, name)

        self._by_statement(name)
        if self._file is not None:
            self._plan().source(self.endpoint.reads)  # raises unless it is there, and the only one
        return StartStore(self._file, lambda: self._stopped(name), stored, committed, self.endpoint.reads)

    # ---- inside

    def _by_statement(self, name: str) -> None:
        """Raises ConnectorError for a job that was made from a pipeline YAML."""
        job = self._job(name)
        if job is not None and job.by_yaml:
            raise ConnectorError(f"{BY_YAML}: it is neither started nor moved", where=self.where, todo=YAML_BY_HAND)

    def _plan(self) -> Plan:
        if not self.endpoint.plan:
            raise ConnectorError(
                "the job's compiled plan is not known, so it cannot be started from here",
                where="connector.plan in pipelines.yaml",
                todo="Start it as you did before, or write its statement with COMPILE PLAN to a file and name that.",
            )
        return Plan.read(self.endpoint.plan)

    def _rest_job(self, job: str) -> Job:
        return Job(
            self._rest.of_job(job),
            self._rest.of_job(job, "exceptions"),
            Checkpoints(self._rest.of_job(job, "checkpoints")),
        )

    def _ids(self, name: str, *, ended: bool) -> list[str]:
        jobs = [job for job in self._rest.overview() if job["name"] == name and Job.has_ended(job["state"]) == ended]
        return [str(job["jid"]) for job in sorted(jobs, key=lambda job: job["start-time"])]

    def _live(self, name: str) -> list[Job]:
        """The jobs of this name that have not ended, the oldest first."""
        return [self._rest_job(job) for job in self._ids(name, ended=False)]

    def _one_live(self, name: str) -> Job | None:
        live = self._live(name)
        if len(live) > 1:
            raise ConnectorError(
                f"{len(live)} jobs are called {name}: {', '.join(job.id for job in live)}",
                where=self.where,
                todo="Stop all but one of them by hand.",
            )
        return live[0] if live else None

    def _job(self, name: str) -> Job | None:
        """The job that has not ended, else the one that ended last."""
        if live := self._live(name):
            return live[-1]
        ids = self._ids(name, ended=True)
        return self._rest_job(ids[-1]) if ids else None

    def _state(self, name: str, job: Job | None) -> ConnectorState:
        if job is None and self._start() is None:
            raise _MissingJobError(
                f"there is no job {name}, and nothing is known of one that was",
                where=self.where,
                todo="Check connector.name; Flink forgets ended jobs when it is restarted, so start it by hand once.",
            )
        if job is not None and job.status == FAILED and self._rests(job):
            return ConnectorState(STOPPED)
        return job_state(job, moved=lambda: self._moved(job))

    def _rests(self, job: Job) -> bool:
        """Whether a job that ended was noted as stopped since."""
        start = self._start()
        return start is not None and not start.job and start.at >= job.ended

    def _rest_from_now(self, name: str) -> None:
        job = self._job(name)
        if job is not None and job.status == FAILED and not self._rests(job):
            self._note(replace(self._next(name), at=job.now))

    def _moved(self, job: Job | None) -> bool:
        """Whether the job stored another offset than the one from which it was restored."""
        if job is None or not job.checkpoints.completed or not job.checkpoints.restored:
            return False
        try:
            now, then = (read_checkpoint(path) for path in (job.checkpoints.completed, job.checkpoints.restored))
        except ConnectorError:
            return False  # what it was restored from is gone: only time can show it
        return bool(now) and [one.raw for one in now] != [one.raw for one in then]

    def _replanned(self, plan: Plan, start: Start, offset: RawOffset) -> Start:
        """Make the plan's source a new one that starts at `offset`; noted first, so that it may be done again after a kill."""
        new_start = replace(start, replanned=True)
        self._note(new_start)
        alone = bool(start.reads) and not start.same and not plan.of(start.reads).keeps
        plan.starting_at(offset, start.reads, alone=alone).write()
        return new_start

    def _note(self, start: Start) -> None:
        if self._file is not None:
            self._file.write(start)

    def _start(self) -> Start | None:
        return self._file.read() if self._file is not None else None

    def _last_stored(self, name: str) -> Job | None:
        """The job that has not ended, else the one that ended last and left a state; not one that never began to run.

        One that we started without a state counts, too: it failed before it stored one.
        """
        if live := self._live(name):
            return live[-1]
        jobs, start = (self._rest_job(job) for job in reversed(self._ids(name, ended=True))), self._start()
        ours = start.job if start else ""
        return next((job for job in jobs if job.checkpoints.newest or job.id == ours), None)

    def _stored(self, name: str) -> tuple[SourceOffset, ...]:
        """The offset of each source, as the job stored it, or as it was decided for its next start; the least first."""
        start = self._current(self._last_stored(name))
        if start.offset is not None and start.reads == self.endpoint.reads:
            return (SourceOffset(start.offset),)
        return self._in(start.savepoint) if start.savepoint else ()

    def _in(self, savepoint: str) -> tuple[SourceOffset, ...]:
        """The offsets in a savepoint: of the source that the pipeline is about, or of all, the least first."""
        if not (reads := self.endpoint.reads) or not self.endpoint.plan:
            return self._ordered(read_checkpoint(savepoint))
        plan = self._plan()
        return read_checkpoint(savepoint, plan.ids, int(plan.source(reads)["id"]))

    def _current(self, job: Job | None) -> Start:
        """Where the position stands: what was decided for the next start, or what this job stored."""
        start = self._start()
        if start is not None and (job is None or start.is_newer_than(job.id, job.began, job.checkpoints.newest_own)):
            return start
        return Start(job.now, job.checkpoints.newest) if job is not None else Start(0)

    def _next(self, name: str) -> Start:
        """What the next start begins from."""
        return self._of(self._last_stored(name))

    def _of(self, job: Job | None) -> Start:
        start = self._current(job)
        return replace(start, savepoint=existing(start.savepoint), job="")

    def _stopped(self, name: str) -> Start:
        """As `_next`. Raises ConnectorError while the job runs."""
        if self._live(name):
            raise ConnectorError(
                f"job {name} runs, and stores its own position", where=self.where, todo="Stop it first."
            )
        return self._next(name)

    def _ordered(self, offsets: tuple[SourceOffset, ...]) -> tuple[SourceOffset, ...]:
        """The offsets, the least first."""

        def behind(one: SourceOffset) -> int:
            at = self._codec.read(one.raw, {}).position
            positions = (self._codec.read(other.raw, {}).position for other in offsets)
            return sum(bool(at and other and at.covers(other)) for other in positions)

        return tuple(sorted(offsets, key=behind))

    def _savepoint(self, job: Job, timeout: float) -> str:
        """The path of the savepoint that the job was stopped with; "": it failed meanwhile.

        Between two failures a job is RUNNING for some seconds, so its state alone does not say that it fails.
        """
        try:
            return self._rest.stop_with_savepoint(job.id, timeout)
        except ConnectorError:
            if not self._failed_since(job):
                raise
            return ""

    def _failed_since(self, job: Job) -> bool:
        """Whether the job has failed since it was looked at, as far as Flink's answers show in time."""

        def shown() -> bool | None:
            now = self._rest_job(job.id)
            return True if now.failure or now.failed_at > job.failed_at else None

        with suppress(DeadlineError):
            return bool(poll_until(shown, timeout=_FRESH_SECONDS, interval=0.3, what="the job to show a failure"))
        return False

    def _cancel(self, job: Job) -> None:
        """Cancel a job that fails. Raises ConnectorError where that would delete its only stored state."""
        stops = self._rest.checkpoint_settings(job.id)
        if job.checkpoints.completed and stops and stops["externalization"]["delete_on_cancellation"]:
            raise ConnectorError(
                "the job fails, so it takes no savepoint, and cancelling it would delete its last checkpoint",
                where=self.where,
                todo="Copy that checkpoint's folder, or let Flink keep it: externalized-checkpoint-retention"
                " RETAIN_ON_CANCELLATION.",
            )
        self._rest.cancel(job.id)

    def _strategy(self, job: Job | None) -> str:
        config = self._rest.of_job(job.id, "config") if job else {}
        return str(config.get("execution-config", {}).get("restart-strategy", ""))


class _MissingJobError(ConnectorError):
    """There is no job of this name."""

    unread = False  # it says something of the pipeline


def _address(config: Mapping[str, str]) -> str:
    host = config.get("source.1.hostname", "")
    return f"{host}:{config.get('source.1.port', '3306')}" if host else ""
