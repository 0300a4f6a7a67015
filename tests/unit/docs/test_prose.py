"""How the pages are written: what is counted, what no page says, and what the site's search finds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from airflow_cdc.decisions.diagnosis.first_aid import rows
from airflow_cdc.kinds import all_texts
from stack import prose, search_order


def test_no_page_for_users_and_no_text_of_the_product_has_a_word_of_the_list() -> None:
    words = prose.word_list()
    assert len(words) >= 16
    assert list(prose.faults(words)) == []


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ('"""It goes on."""\nX = "made anew"\n', ["made anew"]),
        ('def f():\n    """anew"""\n    # anew\n    raise E(f"{x} anew")\n', [" anew"]),
    ],
)
def test_texts_of_the_product_are_its_literals_and_not_its_docstrings(source: str, texts: list[str]) -> None:
    assert [text for _, text in prose.literals(source)] == texts


def test_sentences_are_counted_without_code_and_addresses() -> None:
    page = "# A heading of many words\n\n![A picture](x.png)\n\n::: a.module\n\nYou read `a b c` in [this page](x.md#y). It was written by us.\n\n```sh\nnot a word of it\n```\n"
    counts = prose.counts([page])
    assert (counts.sentences, counts.median, counts.passive, counts.you) == (2, 5.5, 0.5, 0.5)


def test_pages_for_users_are_few_and_short() -> None:
    pages = prose.user_pages()
    counts = prose.counts(page.read_text() for page in pages)
    assert len(pages) <= 30
    assert counts.words <= 40_000
    assert counts.median <= 14
    assert counts.passive <= 0.2
    assert counts.you >= 0.08
    assert not any({"adr", "evidence", "project"} & set(page.parts) for page in pages)


def test_no_page_for_users_names_a_test() -> None:
    named = re.compile(r"tests/|`test_\w+")
    found = [
        (page.name, line) for page in prose.user_pages() for line in page.read_text().splitlines() if named.search(line)
    ]
    assert found == []


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """What mkdocs leaves of a small site, with its search and a page of first aid."""
    for folder in ("search", "docs"):
        (tmp_path / folder).mkdir()
    places = ["connector-failed.html", "problems.html#gtid_purged", "adr/0001-the-house.html", "evidence/bench.html#x"]
    index = {"config": {}, "docs": [{"location": one} for one in places]}
    (tmp_path / "search" / "search_index.json").write_text(json.dumps(index))
    (tmp_path / "search" / "worker.js").write_text("this.add(doc); results = index.search(query);")
    (tmp_path / "docs" / "connector-failed.md").write_text("| `it says` | [GTID_PURGED](problems.md#x) | Yes: rows |\n")
    return tmp_path


def build(site: Path) -> list[dict[str, str]]:
    search_order.on_post_build({"site_dir": str(site), "docs_dir": str(site / "docs")})
    found: list[dict[str, str]] = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    return found


def test_the_search_finds_no_page_of_the_project_and_each_error_text_of_first_aid(built: Path) -> None:
    row, *pages = build(built)
    assert [one["location"] for one in pages] == ["connector-failed.html", "problems.html#gtid_purged"]
    assert (row["title"], row["location"].partition("?")[0]) == ("it says", "connector-failed.html")
    assert "GTID_PURGED (gtid purged). Is anything lost? Yes: rows." in row["text"]


def test_the_page_of_first_aid_has_as_many_entries_as_rows() -> None:
    page = (prose.ROOT / "docs" / "connector-failed.md").read_text()
    entries = list(search_order.errors(page))
    assert len(entries) == len(list(rows(all_texts())))
    assert len({one["location"] for one in entries}) == len(entries)


def test_a_pasted_error_is_words_to_the_search(built: Path) -> None:
    build(built)
    assert "index.search(query.replace(/[:~^+*-]/g, ' '))" in (built / "search" / "worker.js").read_text()


def test_a_search_that_is_written_otherwise_is_not_published(built: Path) -> None:
    (built / "search" / "worker.js").write_text("another program")
    with pytest.raises(ValueError, match="first aid would not be found"):
        build(built)
