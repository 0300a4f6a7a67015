"""What a terminal shows during `make demo`, as a moving picture: made from the run that docs/evidence/demo-200k.md keeps.

`python -m stack.pages` writes it; tasks that were skipped are left out. The lines come as fast as one can read, not as the run went.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
RUN: Final = ROOT / "docs" / "evidence" / "demo-200k.md"
PICTURE: Final = ROOT / "docs" / "images" / "demo.svg"
_LAST: Final = "written to build/demo/report.json"
_SKIPPED: Final = "  – "
_COLUMNS, _ROWS, _LINE, _WIDTH = 82, 26, 17, 8
_LINE_S, _REST_S = 0.25, 6.0
_COLOURS: Final = (
    (re.compile(r"^─+ (.*) ─+$"), "head"),
    (re.compile(r"DebeziumException"), "bad"),
    (re.compile(r"MATCH|^  ✓"), "good"),
)


def shown() -> list[str]:
    """The lines of the run that the evidence keeps whole, with its day: later ones were faster."""
    text = RUN.read_text(encoding="utf-8")
    (block,) = (one for one in re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE) if _LAST in one)
    (day, *_) = re.findall(r"^\d{4}-\d\d-\d\d", text, re.MULTILINE)
    lines = [line for line in block.splitlines() if line.strip() and not line.startswith(_SKIPPED)]
    return [f"$ make demo    # {day}; the newest figures are in the table above", *(line[:_COLUMNS] for line in lines)]


def picture() -> str:
    """The lines in a window of a terminal: they run through it, the end stays for a while, and it begins again."""
    lines = shown()
    beyond = max(len(lines) - _ROWS, 0)
    seconds = beyond * _LINE_S + 2 * _REST_S
    first, last = 100 * _REST_S / seconds, 100 * (1 - _REST_S / seconds)
    texts = "".join(
        f'<text x="12" y="{(n + 1) * _LINE}" class="{_class(line)}">{escape(line)}</text>\n'
        for n, line in enumerate(lines)
    )
    width, height = _COLUMNS * _WIDTH + 24, _ROWS * _LINE + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        "<title>make demo, on real servers: a purge, recovered and proven</title>\n"
        "<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;fill:#d9e1ec}"
        ".head{fill:#7fb3ff}.good{fill:#6fd08c}.bad{fill:#ff8a80}"
        f"@keyframes run{{0%,{first:.1f}%{{transform:translateY(0)}}{last:.1f}%,100%{{transform:translateY(-{beyond * _LINE}px)}}}}"
        f"g{{animation:run {seconds:g}s linear infinite}}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#12161c"/>\n'
        f'<svg y="8" width="{width}" height="{_ROWS * _LINE + 6}"><g>\n{texts}</g></svg>\n</svg>\n'
    )


def _class(line: str) -> str:
    return next((name for pattern, name in _COLOURS if pattern.search(line)), "plain")
