"""The demo over each source, from nothing to its exit status: minutes each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from demo import __main__ as demo
from demo.makes import MAKES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("kind", "sink"), [*((kind, "iceberg") for kind in MAKES), ("mysql", "jdbc")])
def test_the_demo_ends_in_a_match_and_its_peer_in_ghosts(
    kind: str, sink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "FOLDER", tmp_path / "demo")
    monkeypatch.setattr(sys, "argv", ["demo", "--rows", "2000", "--source", kind, "--sink", sink])
    assert demo.main() == 0
    report = json.loads((tmp_path / "demo" / "report.json").read_text())
    assert report["verdict"] == "MATCH"
    assert all(one["equal"] and one["source_rows"] == one["sink_rows"] for one in report["independent_check"])
    assert report["peer"]["ghosts"] > 0
    assert sum(report["gap"]["deletes"].values()) > 20
