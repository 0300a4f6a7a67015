"""SIGKILL at each write of a file: of a commit, a publish, the control document, a report and a file of people's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.breaks.killing import killed_at_each_change
from tests.paths import ROOT

pytestmark = pytest.mark.timeout(1800)

RESULT = ROOT / "build" / "breaks-killed.json"


@pytest.mark.parametrize("work", ["few_changes", "publish", "control_document", "report", "pipelines_yaml"])
def test_a_process_killed_at_each_write_of_a_file(tmp_path: Path, work: str) -> None:
    told = killed_at_each_change(tmp_path, **{work: 1})
    known = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(known | told, indent=1) + "\n")
    assert told[work]["faults"] == [], told
    assert told[work]["kills"] > 3, told


def test_a_file_that_is_written_in_place_is_found(tmp_path: Path) -> None:
    """The strikes can see what they look for."""
    assert killed_at_each_change(tmp_path, in_place=1)["in_place"]["faults"]
