"""A hook of mkdocs: the site's search finds what users read. Evidence, decisions and facts are in the menu, not among its results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

LEFT_OUT: Final = ("adr/", "evidence/", "project/", "what-can-go-wrong", "measured-facts", "supported-versions")


def on_post_build(config: Any, **_more: Any) -> None:
    """Leave the project's own pages out of the index that the search has written."""
    index = Path(config["site_dir"]) / "search" / "search_index.json"
    found = json.loads(index.read_text(encoding="utf-8"))
    found["docs"] = [one for one in found["docs"] if not one["location"].startswith(LEFT_OUT)]
    index.write_text(json.dumps(found), encoding="utf-8")
