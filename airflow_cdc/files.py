"""Files that people or other programs read: replaced whole or not at all, also if the disk is full or we are killed."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

from airflow_cdc.core.errors import ConnectorError


def replace_file(path: Path, content: bytes | str, *, mode: int | None = None, like: Path | None = None) -> None:
    """Write `content` beside `path` and put it in its place. Raises OSError, and then `path` is as it was.

    The file has the rights and the owner of `like` (default: the file that it replaces), else `mode`, else those that
    a new file gets. At no moment may anybody read it who may not read the file that it replaces: it may hold passwords.
    """
    path = path.resolve()  # a link, such as those of a mounted ConfigMap, stays one
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    model = path if like is None else like
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(content.encode() if isinstance(content, str) else content)
            out.flush()
            os.fsync(out.fileno())
        if model.exists():
            _give(part, model)
        else:
            part.chmod(0o666 & ~_umask() if mode is None else mode)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def replace_connectors_file(path: Path, content: bytes, *, like: Path) -> None:
    """`replace_file` for a file that a connector reads: with the owner and the rights of `like`, if that exists. Raises ConnectorError.

    At no moment may anybody read it who may not read `like`: there are passwords in such files.
    """
    try:
        replace_file(path, content, mode=0o644, like=like)
    except OSError as error:
        raise ConnectorError(
            f"{path} cannot be written: {error.strerror}",
            where=str(path),
            todo="Let the worker's user write in that folder.",
        ) from None


def _give(part: Path, model: Path) -> None:
    shutil.copymode(model, part)
    owner, own = model.stat(), part.stat()
    if (owner.st_uid, owner.st_gid) != (own.st_uid, own.st_gid):
        os.chown(part, owner.st_uid, owner.st_gid)


def _umask() -> int:
    # asking by os.umask would change it for a moment, for every thread
    text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("Umask:")), 8)
