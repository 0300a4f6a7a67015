"""Replacing a file that another program reads: whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from airflow_cdc.core.errors import ConnectorError


def replace_file(path: Path, content: bytes, *, like: Path) -> None:
    """Write `content` with the owner and the rights of `like`, if that exists. Raises ConnectorError.

    At no moment may anybody read it who may not read `like`: there are passwords in such files.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as written:
            written.write(content)
            written.flush()
            os.fsync(written.fileno())
        if like.exists():
            _give(part, like)
        else:
            part.chmod(0o644)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ConnectorError(
            f"{path} cannot be written: {error.strerror}",
            where=str(path),
            todo="Let the worker's user write in that folder.",
        ) from None


def _give(part: Path, like: Path) -> None:
    shutil.copymode(like, part)
    owner, own = like.stat(), part.stat()
    if (owner.st_uid, owner.st_gid) != (own.st_uid, own.st_gid):
        os.chown(part, owner.st_uid, owner.st_gid)
