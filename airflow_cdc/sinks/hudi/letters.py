"""The records that could not be applied: a file each, beside the tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from airflow_cdc.core.dead_letter import (
    MAX_ATTEMPTS,
    DeadLetter,
    data_in,
    data_text,
    headers_in,
    headers_text,
    is_before,
)
from airflow_cdc.core.errors import MALFORMED, UnknownStateError
from airflow_cdc.core.topics import Fence
from airflow_cdc.sinks.hudi.endpoint import HudiEndpoint
from airflow_cdc.sinks.hudi.notes import write_json

FOLDER = "_cdc/letters"


class Letters:
    """The letters of all pipelines that write to one folder."""

    def __init__(self, endpoint: HudiEndpoint) -> None:
        self._endpoint = endpoint

    def _folder(self, pipeline: str) -> Path:
        return self._endpoint.root / FOLDER / pipeline

    def _file(self, pipeline: str, letter: DeadLetter) -> Path:
        text = "\n".join(map(str, (letter.table, *letter.place)))
        return self._folder(pipeline) / f"{hashlib.sha256(text.encode()).hexdigest()}.json"

    def record(self, pipeline: str, letters: Iterable[DeadLetter]) -> None:
        """Store letters; one that is stored already counts one more attempt, and is unresolved again."""
        for letter in letters:
            known = _read(self._file(pipeline, letter))
            attempts, since = (known.attempts + 1, known.first_seen) if known else (letter.attempts, letter.first_seen)
            self._write(pipeline, replace(letter, attempts=attempts, first_seen=since))

    def unresolved(self, pipeline: str, table: str | None = None) -> tuple[DeadLetter, ...]:
        """The letters that are not resolved yet, of one table or of all, oldest first."""
        mine = (one for one in self._all(pipeline) if one.resolved_at is None and table in {None, one.table})
        return tuple(sorted(mine, key=lambda one: (one.first_seen, one.topic, one.partition, one.offset)))

    def waiting(self, pipeline: str) -> int:
        """How many unresolved letters will be tried again."""
        return sum(letter.attempts < MAX_ATTEMPTS for letter in self.unresolved(pipeline))

    def resolve_before(self, pipeline: str, since: Mapping[str, Fence]) -> int:
        """Mark the letters before each table's fence as resolved. Returns how many were marked."""
        letters = self.unresolved(pipeline)
        due = [one for one in letters if one.table in since and is_before(one.place, since[one.table])]
        self.resolve(pipeline, due)
        return len(due)

    def resolve(self, pipeline: str, some: Sequence[DeadLetter]) -> None:
        """Mark letters as resolved: their keys, or their whole table, were read again."""
        now = datetime.now(UTC)
        for letter in some:
            self._write(pipeline, replace(letter, resolved_at=now))

    def count_attempt(self, pipeline: str, some: Sequence[DeadLetter]) -> None:
        """Count an attempt that did not resolve the letters."""
        for letter in some:
            self._write(pipeline, replace(letter, attempts=letter.attempts + 1))

    def _all(self, pipeline: str) -> Iterator[DeadLetter]:
        for path in sorted(self._folder(pipeline).glob("*.json")):
            if (letter := _read(path)) is not None:
                yield letter

    def _write(self, pipeline: str, letter: DeadLetter) -> None:
        plain = asdict(letter)
        times = {name: _moment(plain[name]) for name in ("first_seen", "resolved_at")}
        write_json(
            self._file(pipeline, letter),
            {
                **plain,
                **times,
                "key": data_text(letter.key),
                "value": data_text(letter.value),
                "headers": headers_text(letter.headers),
            },
        )


def _read(path: Path) -> DeadLetter | None:
    try:
        value = json.loads(path.read_text())
        times = {name: value[name] and datetime.fromisoformat(value[name]) for name in ("first_seen", "resolved_at")}
        data = {name: data_in(value[name]) for name in ("key", "value")}
        return DeadLetter(**{**value, **times, **data, "headers": headers_in(value.get("headers"))})
    except FileNotFoundError:
        return None
    except (OSError, *MALFORMED) as error:
        raise UnknownStateError(
            f"a dead letter cannot be read: {error}",
            where=f"file {path}",
            todo="Repair the file, or move it away: its event is then no longer replayed.",
        ) from None


def _moment(value: datetime | None) -> str | None:
    return value.isoformat() if value else None
