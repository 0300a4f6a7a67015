"""What the next start of a job begins from: a savepoint, and an offset that was set by hand. Kept beside the plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from airflow_cdc.core.errors import MALFORMED, ConnectorError
from airflow_cdc.core.offset import RawOffset
from airflow_cdc.core.text import read_json
from airflow_cdc.fields import Fields
from airflow_cdc.files import replace_file


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a job.

    Attributes:
        at: when it was decided, in milliseconds since 1970, by the JobManager's clock.
        savepoint: a savepoint or checkpoint; "": without any state.
        offset: where the source starts instead of the savepoint's offset; None: where the savepoint says.
        job: the job that was started from it; "": not yet.
        replanned: whether the plan was changed for it: its source no longer is the one whose state the savepoint holds.
        same: whether `offset` names the transactions that the savepoint's own does, on another server: the state of all
            other operators, sinks included, is as old as the offset.
        reads: which source of the job `offset` is for; "": it has just one.
    """

    at: int
    savepoint: str = ""
    offset: RawOffset | None = None
    job: str = ""
    replanned: bool = False
    same: bool = False
    reads: str = ""

    def is_newer_than(self, job: str, began: int, stored: str) -> bool:
        """Whether this counts, and not what the last job stored (`stored`: where; "": nothing of its own yet).

        A decision for a start to come is newer than a job that began before it; one that was carried out counts until the
        job that was started stores its own position.
        """
        if self.job:
            return self.job == job and not stored
        return began <= self.at

    def to_json(self) -> dict[str, object]:
        """The content of the file."""
        offset = None if self.offset is None else dict(self.offset)
        own = {
            "savepoint": self.savepoint,
            "offset": offset,
            "job": self.job,
            "replanned": self.replanned,
            "same": self.same,
            "reads": self.reads,
        }
        return {"format": 1, "at": self.at, **own}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Self:
        """The inverse. Raises one of MALFORMED for anything else."""
        if value["format"] != 1:
            raise ValueError(f"format {value['format']!r}")
        return cls(
            Fields(value).number("at"),
            str(value["savepoint"]),
            None if value["offset"] is None else Fields.of(value["offset"]),
            str(value["job"]),
            replanned=bool(value["replanned"]),
            same=bool(value.get("same")),
            reads=str(value.get("reads", "")),
        )


@dataclass(frozen=True, slots=True)
class StartFile:
    """`<plan>.start`. Raises ConnectorError where it cannot be read or written."""

    path: Path

    @classmethod
    def beside(cls, plan: str) -> StartFile | None:
        """The file of a plan; None without a plan."""
        return cls(Path(f"{plan}.start")) if plan else None

    def read(self) -> Start | None:
        """The start that was decided last; None: none was."""
        try:
            return Start.from_json(read_json(self.path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, *MALFORMED) as error:
            raise self._fault(
                f"cannot be read: {error!r}", "Repair it, or take it away to start from the newest savepoint."
            ) from None

    def write(self, start: Start) -> None:
        """Replace the file, whole or not at all."""
        try:
            replace_file(self.path, json.dumps(start.to_json(), indent=2))
        except OSError as error:
            raise self._fault(
                f"cannot be written: {error.strerror}", "Let the worker's user write in that folder."
            ) from None

    def _fault(self, what: str, todo: str) -> ConnectorError:
        return ConnectorError(f"the file of the job's next start {what}", where=str(self.path), todo=todo)


@dataclass(frozen=True, slots=True)
class StartStore:
    """The offset of a stopped job (core.offset.OffsetStore): what its next start begins from.

    Attributes:
        file: None without a plan.
        stopped: the start from the newest savepoint; raises ConnectorError while the job runs.
        stored: the offset in a savepoint.
        reads: which source of the job it is the offset of; "": it has just one.
    """

    file: StartFile | None
    stopped: Callable[[], Start]
    stored: Callable[[str], RawOffset | None]
    committed: Callable[[], RawOffset | None]
    reads: str = ""

    def read(self) -> RawOffset | None:
        """The offset from which the job would start."""
        return self.committed()

    def write(self, raw: RawOffset | None) -> None:
        """Decide the next start. Writing what the savepoint itself holds starts from the savepoint as it is."""
        if self.file is None:
            raise ConnectorError(
                "the job's compiled plan is not known, so its position cannot be set",
                where="connector.plan in pipelines.yaml",
                todo="Write the statement with COMPILE PLAN to a file, start the job with EXECUTE PLAN, and name the file.",
            )
        start = self.stopped()
        if start.offset is not None and start.reads != self.reads:
            raise ConnectorError(
                f"the position of {start.reads or 'the source'} was set, and the job was not started with it yet",
                where=str(self.file.path),
                todo="Start the job first: one source after the other is set.",
            )
        if raw is None:
            self.file.write(Start(start.at, replanned=start.replanned, reads=self.reads))
            return
        own = self.stored(start.savepoint) if start.savepoint else None
        fits = not start.replanned and own == dict(raw)
        self.file.write(
            replace(
                start,
                offset=None if fits else dict(raw),
                same=not fits and _same_transactions(own, raw),
                reads="" if fits else self.reads,
            )
        )


def _same_transactions(own: RawOffset | None, raw: RawOffset) -> bool:
    """Whether both have read the same set, up to the same event: only file and position differ, as on another server.

    The time tells a translated offset from a watermark, which is taken later: before that one, the tables were published.
    """
    keys = ("gtids", "ts_sec")
    return own is not None and bool(raw.get("gtids")) and all(own.get(key) == raw.get(key) for key in keys)
