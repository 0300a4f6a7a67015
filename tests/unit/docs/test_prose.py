"""How the pages are written: what is counted, what no page says, and what the site's search finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
    assert counts.words <= 45_000
    assert counts.median <= 14
    assert not any({"adr", "evidence", "project"} & set(page.parts) for page in pages)


def test_the_search_finds_no_page_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "search").mkdir()
    index = tmp_path / "search" / "search_index.json"
    places = ["connector-failed.html", "problems.html#gtid_purged", "adr/0001-the-house.html", "evidence/bench.html#x"]
    index.write_text(json.dumps({"config": {}, "docs": [{"location": one} for one in places]}))
    search_order.on_post_build({"site_dir": str(tmp_path)})
    assert [one["location"] for one in json.loads(index.read_text())["docs"]] == places[:2]
