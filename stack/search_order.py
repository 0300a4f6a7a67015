"""A hook of mkdocs: the site's search finds what users read, and first aid by the words of an error.

Evidence, decisions and facts are in the menu, not among its results. Each error text of first aid is an entry of its own, so
that whoever pastes one finds it before a page that only mentions it. A pasted text is words: the search's own language would take
`SQLSTATE: HY000` for a field, and find nothing at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

LEFT_OUT: Final = ("adr/", "evidence/", "project/", "what-can-go-wrong", "measured-facts", "supported-versions")
FIRST_AID: Final = "connector-failed"
_TABLE: Final = "3-which-of-these-is-it"
_ROW: Final = re.compile(r"^\| `(?P<says>.+?)` \| \[(?P<code>\w+)\]\([^)]*\) \| (?P<lost>.+?) \|$", re.MULTILINE)
# of the program of the search, what is there → what is wanted
_MENDED: Final = {
    "index.search(query)": "index.search(query.replace(/[:~^+*-]/g, ' '))",
    "this.add(doc)": "this.add(doc, {boost: doc.boost || 1})",
}
_BOOST: Final = 10


def on_post_build(config: Any, **_more: Any) -> None:
    """Mend the index and the program of the search where it was built."""
    place = Path(config["site_dir"]) / "search"
    index = place / "search_index.json"
    found = json.loads(index.read_text(encoding="utf-8"))
    kept = [one for one in found["docs"] if not one["location"].startswith(LEFT_OUT)]
    page = (Path(config["docs_dir"]) / f"{FIRST_AID}.md").read_text(encoding="utf-8")
    found["docs"] = [*errors(page), *kept]
    index.write_text(json.dumps(found), encoding="utf-8")
    _mend(place / "worker.js")


def errors(page: str) -> Iterator[dict[str, str | int]]:
    """An entry of the index for each row of first aid's table. The number makes the addresses differ, and leads to one place."""
    for number, row in enumerate(_ROW.finditer(page), 1):
        words = row["code"].replace("_", " ").lower()
        yield {
            "location": f"{FIRST_AID}.html?text={number}#{_TABLE}",
            "title": row["says"],
            "text": f"First aid: {row['code']} ({words}). Is anything lost? {row['lost']}.",
            "boost": _BOOST,
        }


def _mend(worker: Path) -> None:
    program = worker.read_text(encoding="utf-8")
    for there, wanted in _MENDED.items():
        if there not in program:
            raise ValueError(f"{worker}: {there} is not in it, so first aid would not be found")
        program = program.replace(there, wanted)
    worker.write_text(program, encoding="utf-8")
