"""A file is replaced whole, and its content is at no moment readable by more people than before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.files import replace_connectors_file


def test_a_file_with_passwords_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "application.properties"
    path.write_bytes(b"old")
    path.chmod(0o600)
    modes = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        modes.append(os.fstat(descriptor).st_mode & 0o777)
        sync(descriptor)

    monkeypatch.setattr("airflow_cdc.files.os.fsync", noted)
    replace_connectors_file(path, b"new", like=path)
    assert (path.read_bytes(), path.stat().st_mode & 0o777, modes) == (b"new", 0o600, [0o600])
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "offsets.dat"
    path.write_bytes(b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("airflow_cdc.files.os.fsync", full)
    with pytest.raises(ConnectorError, match="No space left"):
        replace_connectors_file(path, b"new", like=path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
