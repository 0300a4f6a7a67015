"""Replacing a file that another program reads: whole or not at all."""

from __future__ import annotations

from pathlib import Path

from airflow_cdc import files
from airflow_cdc.core.errors import ConnectorError


def replace_file(path: Path, content: bytes, *, like: Path) -> None:
    """Write `content` with the owner and the rights of `like`, if that exists. Raises ConnectorError.

    At no moment may anybody read it who may not read `like`: there are passwords in such files.
    """
    try:
        files.replace_file(path, content, mode=0o644, like=like)
    except OSError as error:
        raise ConnectorError(
            f"{path} cannot be written: {error.strerror}",
            where=str(path),
            todo="Let the worker's user write in that folder.",
        ) from None
