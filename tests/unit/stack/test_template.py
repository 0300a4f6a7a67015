"""A folder that is filled the same way each time is filled once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stack import template


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that were filled, in an environment of the test's own."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    return []


def fill(filled: list[Path], folder: Path) -> None:
    filled.append(folder)
    (folder / "data").mkdir()
    (folder / "data" / "name").write_text(f"filled {len(filled)}")


def test_the_second_folder_is_a_copy_that_can_change_by_itself(filled: list[Path], tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in "abc")
    template.copied("db", "8.0", one, lambda folder: fill(filled, folder))
    template.copied("db", "8.0", two, lambda folder: fill(filled, folder))
    (one / "data" / "name").write_text("changed")
    template.copied("db", "8.0", three, lambda folder: fill(filled, folder))
    assert len(filled) == 1
    assert [(folder / "data" / "name").read_text() for folder in (one, two, three)] == [
        "changed",
        "filled 1",
        "filled 1",
    ]


def test_another_version_is_filled_for_itself(filled: list[Path], tmp_path: Path) -> None:
    template.copied("db", "8.0", tmp_path / "a", lambda folder: fill(filled, folder))
    template.copied("db", "9.7", tmp_path / "b", lambda folder: fill(filled, folder))
    assert (tmp_path / "b" / "data" / "name").read_text() == "filled 2"


def test_what_could_not_be_filled_is_filled_again(filled: list[Path], tmp_path: Path) -> None:
    def fails(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        template.copied("db", "8.0", tmp_path / "a", fails)
    template.copied("db", "8.0", tmp_path / "a", lambda folder: fill(filled, folder))
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["data"]
