"""The report folder, on a disk or in an object store: `<root>/<pipeline>/observation.json`, `runs.json`, `<run>/report.json`.

A reader never sees half a file: on a disk a file is renamed into place, and object stores write whole objects.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from airflow_cdc.core.codec import plain, read
from airflow_cdc.core.errors import MALFORMED, CdcError
from airflow_cdc.core.kind import Lazy
from airflow_cdc.core.report import RecoveryReport
from airflow_cdc.core.text import shown
from airflow_cdc.decisions.compare.row_diff import RowPair, rows_file
from airflow_cdc.files import replace_file
from airflow_cdc.reports.stored import RunSummary, Silence, StoredObservation, with_run

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

OBSERVATION = "observation.json"
RUNS = "runs.json"
SILENCES = "silences.json"
REPORT = "report.json"
# in a pipeline's folder beside the runs'
_OURS = (OBSERVATION, RUNS, SILENCES, "offsets")
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.~-]{0,199}")
_FOLDER = re.compile(r"[A-Za-z0-9_.~-]{0,200}=[0-9a-f]{8}")
_ODD = re.compile(r"[^A-Za-z0-9_.~-]|^\.")
_LONGEST = 200
OWN_FILE, OWN_FOLDER = 0o600, 0o700
READERS = 16
TRIES = 3

T = TypeVar("T")
# by name: connections are Airflow's, which nothing here imports
_BY_CONNECTION: Lazy[Callable[[str], tuple[AbstractFileSystem, str]]] = Lazy("airflow_cdc.hooks.report_folder:opened")


def connection_of(url: str) -> str:
    """The connection that a URL names, as in `s3://CONN_ID@bucket/reports`; "": none.

    Azure writes its container there, `abfs://container@account.dfs.core.windows.net/reports`: a host with dots.
    """
    parts = urlsplit(url)
    name, _, host = parts.netloc.rpartition("@")
    return "" if parts.scheme.startswith("abfs") and "." in host else name


def safe(run_id: str) -> str:
    """The folder name of a run's report; that of a folder's name is itself. No two runs have one, and none has a file's.

    What stands for `:`, `+` and `/` could be in an id, too: `a:b` becomes `a_b=` and eight digits of its hash.
    """
    if not run_id or _FOLDER.fullmatch(run_id) or (_PLAIN.fullmatch(run_id) and run_id not in _OURS):
        return run_id
    return f"{_ODD.sub('_', run_id)[:_LONGEST]}={hashlib.sha256(run_id.encode(errors='surrogatepass')).hexdigest()[:8]}"


@dataclass(frozen=True)
class ReportStore:
    """Everything below one report folder. Raises CdcError for a file that can't be read or written."""

    root: str

    @cached_property
    def _opened(self) -> tuple[AbstractFileSystem, str]:
        import fsspec

        try:
            if connection_of(self.root):
                return _BY_CONNECTION.load()(self.root)
            files, path = fsspec.core.url_to_fs(self.root)
        except CdcError:
            raise
        except Exception as error:  # each store's library has its own
            raise self._failed("open", error) from error
        return files, str(path).rstrip("/")

    def location(self, *parts: str) -> str:
        """The path or URL of something in the folder."""
        return "/".join((self.root.rstrip("/"), *parts))

    def read(self, *parts: str) -> bytes | None:
        """A file's content, or None if there is none."""
        files, base = self._opened
        try:
            return bytes(files.cat_file("/".join((base, *parts))))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except Exception as error:  # each store's library has its own, which are no OSError
            raise self._failed("read", error, *parts) from error

    def write(self, text: str | bytes, *parts: str) -> str:
        """Replace a file's content by `text` atomically, and return its location."""
        content = text.encode() if isinstance(text, str) else text
        files, base = self._opened
        path = "/".join((base, *parts))
        try:
            if "file" in (files.protocol if isinstance(files.protocol, tuple) else (files.protocol,)):
                _own_folder(Path(path).parent)
                replace_file(Path(path), content, mode=OWN_FILE)
            else:
                files.makedirs(path.rpartition("/")[0], exist_ok=True)
                files.pipe_file(path, content)
        except Exception as error:
            raise self._failed("write", error, *parts) from error
        return self.location(*parts)

    def put(self, folder: Path) -> None:
        """Copy a local folder's files here."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.write(path.read_bytes(), *path.relative_to(folder).parts)

    def _failed(self, verb: str, error: Exception, *parts: str) -> CdcError:
        said = shown(str(error), 200)
        return CdcError(
            f"can't {verb} the stored file: {type(error).__name__}{f' ({said})' if said else ''}",
            where=self.location(*parts),
            todo="Check [cdc] report_dir and its permissions.",
        )

    def json(self, pipeline: str, run_id: str, name: str) -> Any:
        """A JSON file beside a run's report, or None if there is none."""
        return self._parsed(lambda value: value, pipeline, safe(run_id), name)

    def report(self, pipeline: str, run_id: str) -> RecoveryReport | None:
        """The report of a run (by its id or its folder's name), or None if it has none."""
        return self._parsed(RecoveryReport.from_json, pipeline, safe(run_id), REPORT)

    def rows(self, report: RecoveryReport) -> dict[str, list[RowPair]]:
        """Table → both rows of the keys that the report names, as far as they were stored and can be read; a report is
        complete without them. Rows that an earlier try stored and that are equal by now are left out.
        """
        rows = {
            table.table: [pair for pair in self._kept_pairs(report, table.table) if pair.sample in table.samples]
            for table in report.tables
            if table.samples
        }
        return {name: pairs for name, pairs in rows.items() if pairs}

    def _kept_pairs(self, report: RecoveryReport, table: str) -> list[RowPair]:
        try:
            return self._parsed(partial(_each, RowPair), report.pipeline, safe(report.run_id), rows_file(table)) or []
        except CdcError:
            return []

    def observation(self, pipeline: str) -> StoredObservation | None:
        """The newest stored observation of a pipeline, or None if there is none."""
        return self._parsed(partial(read, StoredObservation), pipeline, OBSERVATION)

    def runs(self, pipeline: str) -> list[RunSummary]:
        """The newest runs of a pipeline that left a report, newest first."""
        return self._parsed(partial(_each, RunSummary), pipeline, RUNS) or []

    def silences(self, pipeline: str) -> list[Silence]:
        """Who acknowledged a problem of the pipeline or muted it, oldest first, as an audit."""
        return self._parsed(partial(_each, Silence), pipeline, SILENCES) or []

    def silence(self, pipeline: str, code: str, moment: str) -> Silence | None:
        """The silence that covers the problem `code` at that time (ISO), if there is one."""
        return next((one for one in reversed(self.silences(pipeline)) if one.covers(code, moment)), None)

    def keep_silences(self, pipeline: str, silences: Sequence[Silence]) -> None:
        """Store the list of silences; it replaces the previous one."""
        self.write(_text([plain(one) for one in silences]), pipeline, SILENCES)

    def _parsed(self, parse: Callable[[Any], T], *parts: str) -> T | None:
        text = self.read(*parts)
        if text is None:
            return None
        try:
            return parse(json.loads(text))
        except (CdcError, *MALFORMED) as error:
            raise CdcError(
                f"the stored file has an unknown form: {type(error).__name__} {shown(str(error), 200)}",
                where=self.location(*parts),
                todo="It was written by another version, or by hand: remove it and diagnose again.",
            ) from error

    def many(self, read: Callable[[str], T], pipelines: Sequence[str]) -> Mapping[str, T]:
        """`read` of each pipeline, several at a time, because an object store is too slow for one after the other."""
        with ThreadPoolExecutor(READERS) as pool:
            return dict(zip(pipelines, pool.map(read, pipelines), strict=True))

    def keep_observation(self, observation: StoredObservation) -> str:
        """Store an observation; it replaces the previous one."""
        return self.write(_text(plain(observation)), observation.pipeline, OBSERVATION)

    def keep_report(self, report: RecoveryReport) -> str:
        """Write a run's report.json."""
        return self.write(report.to_text(), report.pipeline, safe(report.run_id), REPORT)

    def keep_run(self, pipeline: str, run: RunSummary, equal: frozenset[str] = frozenset()) -> None:
        """Add a run, which proved the tables `equal`, to its pipeline's list. If two runs write at once, the one that
        finds itself missing writes again.
        """
        for _ in range(TRIES):
            listed = with_run(self._known(pipeline), run, equal)
            self.write(_text([plain(one) for one in listed]), pipeline, RUNS)
            if {one.run_id: one.ended_at for one in self._known(pipeline)}.get(run.run_id) == run.ended_at:
                return

    def _known(self, pipeline: str) -> list[RunSummary]:
        try:
            return self.runs(pipeline)
        except CdcError:
            return []  # the list is only an index: an unreadable one is started again


def _own_folder(folder: Path) -> None:
    """Create what is missing of it for this user alone: reports hold rows. Existing folders stay as they are."""
    if not folder.is_dir():
        _own_folder(folder.parent)
        folder.mkdir(mode=OWN_FOLDER, exist_ok=True)


def _each(kind: type[T], value: Any) -> list[T]:
    return [read(kind, one) for one in value]


def _text(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
