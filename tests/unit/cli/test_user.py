"""Whose name a command leaves in the audit."""

from __future__ import annotations

import json
import os
import pwd
from argparse import Namespace

import pytest

from airflow_cdc.cli.run import complain, emit, pairs, shell_user


def test_a_variable_is_no_name_for_an_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert shell_user() == pwd.getpwuid(os.geteuid()).pw_name


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 7)
    assert shell_user() == f"uid {2**31 - 7}"


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_what_other_systems_write_moves_no_cursor_of_a_terminal(
    output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "trace \x1b[2J \x9b1m \u202egnp \x07 \x7f"
    emit(Namespace(output=output), {"why": hostile}, pairs({"why": hostile}))
    complain(hostile, 1)
    told = capsys.readouterr()
    for text in (told.out, told.err):
        assert not set(text) & set("\x1b\x9b\u202e\x07\x7f")
        assert "trace" in text
    if output == "json":
        assert json.loads(told.out) == {"why": hostile}
