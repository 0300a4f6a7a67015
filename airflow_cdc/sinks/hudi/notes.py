"""What a table or a stage is before its first commit, in a file beside it: columns, definition, base."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from airflow_cdc.core.errors import MALFORMED, UnknownStateError
from airflow_cdc.files import replace_file

CHECK_WAREHOUSE: Final = "Check the warehouse, and who may read it."


@dataclass(frozen=True, slots=True)
class Notes:
    """Attributes:
    columns: (name, Spark SQL type).
    definition: of the source table, as JSON; "": none is known.
    since: when it was made, in unix seconds.
    """

    namespace: str
    table: str
    label: str = ""
    base_head: int = 0
    columns: tuple[tuple[str, str], ...] = ()
    definition: str = ""
    since: float = 0.0


def read(path: Path) -> Notes | None:
    """The notes in a file; None if there is none. Raises UnknownStateError for anything else."""
    try:
        value: Mapping[str, Any] = json.loads(path.read_text())
        columns = tuple((str(name), str(kind)) for name, kind in value["columns"])
        return Notes(**{**value, "columns": columns})
    except FileNotFoundError:
        return None
    except (OSError, *MALFORMED) as error:
        raise UnknownStateError(
            f"the notes cannot be read: {error}", where=f"file {path}", todo=CHECK_WAREHOUSE
        ) from None


def write(path: Path, notes: Notes) -> None:
    """Write them at once: a reader sees the old ones or the new ones."""
    write_json(path, asdict(notes))


def read_rows(path: Path, version: int) -> int | None:
    """The number of rows that was noted for this version; None if it was for another, or for none."""
    try:
        value = json.loads(path.read_text())
        return int(value["rows"]) if value["version"] == version else None
    except FileNotFoundError:
        return None
    except (OSError, *MALFORMED) as error:
        raise UnknownStateError(
            f"the number of rows cannot be read: {error}",
            where=f"file {path}",
            todo=CHECK_WAREHOUSE,
        ) from None


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Replace a file as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(value))
