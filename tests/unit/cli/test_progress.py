"""What a command shows of a run while it waits: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from airflow_cdc.cli.progress import telling
from airflow_cdc.cli.trigger import Ended

COURSE = [
    Ended("running", {"diagnose": "running", "approve": "none"}),
    Ended("running", {"diagnose": "success", "approve": "awaiting_input"}),
    Ended("success", {"diagnose": "success", "approve": "success"}),
]


def test_elsewhere_each_change_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with telling(Console(file=io.StringIO(), force_terminal=False)) as teller:
        for now in [COURSE[0], *COURSE]:
            teller.seen(now)
        teller.say("the plan changed")
    told = ["diagnose: running", "diagnose: success", "approve: awaiting_input", "approve: success", "the plan changed"]
    assert capsys.readouterr().err.splitlines() == told


def test_a_terminal_has_a_bar_that_says_what_is_at_work() -> None:
    screen = io.StringIO()
    with telling(Console(file=screen, force_terminal=True, width=120)) as teller:
        shown = []
        for now in COURSE:
            teller.seen(now)
            teller.say("[red]as it is[/red]")
            shown.append(screen.getvalue())
    assert "0/2" in shown[0]
    assert "diagnose" in shown[0]
    assert "approve waits for an answer" in shown[1]
    assert "approve waits for an answer" not in shown[0]
    assert "[red]as it is[/red]" in shown[0]
    assert "2/2" in screen.getvalue()


def test_a_run_without_tasks_yet_is_queued() -> None:
    screen = io.StringIO()
    with telling(Console(file=screen, force_terminal=True, width=120)) as teller:
        teller.say("triggered")
        teller.seen(Ended("queued", {}))
    assert "the run is queued" in screen.getvalue()
