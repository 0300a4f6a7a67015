"""The page of Great Expectations: made of kept facts, in a process of its own, and never what a run waits for or fails of."""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from airflow_cdc.core.codec import plain, read
from airflow_cdc.core.errors import VerificationError
from airflow_cdc.decisions.compare import expectations
from airflow_cdc.decisions.compare.expectations import Counted, Expected, StageFacts
from airflow_cdc.reports import data_docs
from airflow_cdc.reports.store import ReportStore, safe

SOUND = Counted(
    Expected("shop.orders", 7, {"id": "bigint"}, ("id",), rows=2, key=("id",), key_proven=True),
    StageFacts(2, {"id": "LongType"}, {"id": 0}),
)
WRONG = Counted(
    Expected("shop.items", 7, {"id": "bigint"}, ("id",), rows=3), StageFacts(2, {"id": "LongType"}, {"id": 1})
)


def test_a_run_s_page_names_its_tables_and_what_fails(tmp_path: Path) -> None:
    reports = ReportStore(str(tmp_path))
    data_docs.keep_facts(reports.location("shop", safe("run:1")), [SOUND, WRONG])
    data_docs.make_page(reports, "shop", "run:1")
    folder = tmp_path / "shop" / safe("run:1") / "data_docs"
    (page,) = folder.glob("validations/**/*.html")
    assert "shop.items" in page.read_text()
    assert (folder / "index.html").exists()


def test_a_run_that_counted_nothing_has_no_page(tmp_path: Path) -> None:
    data_docs.make_page(ReportStore(str(tmp_path)), "shop", "run_1")
    assert list(tmp_path.iterdir()) == []


def test_facts_of_another_form_cost_the_page_and_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reports = ReportStore(str(tmp_path))
    reports.write('[{"expected": 7}]', "shop", "run_1", data_docs.FACTS)
    data_docs.make_page(reports, "shop", "run_1")
    assert "no page of Great Expectations was made, which changes no verdict" in caplog.text
    assert not (tmp_path / "shop" / "run_1" / "data_docs").exists()


def test_its_process_builds_no_grammar_that_nothing_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rfc3987_syntax is installed, jsonschema builds one of it: a quarter of what Great Expectations takes to import."""
    seen = list[Sequence[Counted]]()
    monkeypatch.setattr(data_docs, "write_pages", lambda tables, _folder: seen.append(tables))
    monkeypatch.setattr(sys, "argv", ["data_docs", str(tmp_path)])
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps([plain(SOUND)])))
    monkeypatch.setitem(sys.modules, "rfc3987_syntax", ModuleType("rfc3987_syntax"))  # put back at the end
    assert data_docs.main() == 0
    assert seen == [[SOUND]]
    with pytest.raises(ImportError):
        importlib.import_module("rfc3987_syntax")


def test_great_expectations_and_the_run_have_to_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "_failures", lambda *_: iter(()))
    with pytest.raises(VerificationError, match=r"says otherwise than the run of shop\.items"):
        data_docs.write_pages([SOUND, WRONG], tmp_path)


def test_the_page_says_what_digests_prove(tmp_path: Path) -> None:
    data_docs.write_pages([SOUND], tmp_path)
    pages = [page.read_text() for page in tmp_path.glob("expectations/**/*.html")]
    assert any("equal digests of every row prove it" in page for page in pages)


def test_a_copy_of_main_is_named_by_what_was_copied(tmp_path: Path) -> None:
    """The copy, snapshot 7, is dropped after the comparison: nobody could look at it."""
    copied = read(Counted, plain(SOUND.of_main(3, 12)))
    data_docs.write_pages([copied], tmp_path)
    told = "".join(page.read_text() for page in tmp_path.glob("**/*.html"))
    assert "snapshot 3 with the 12 events that wait for it" in told
    assert "snapshot 7" not in told
    assert SOUND.of_main(None, 12) == SOUND
