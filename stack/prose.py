"""The English of the pages, counted and checked: `python -m stack.prose` counts, `python -m stack.prose check` greps the word list.

The list is the table of docs/project/style.md. What is checked: README and the pages for users, and the texts of the product
(help, messages, the page's words), which are the literals of its code without docstrings and comments.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
STYLE: Final = ROOT / "docs" / "project" / "style.md"
PROJECT: Final = "Project"
_WORD: Final = re.compile(r"^\| `([^`|]+)` \|", re.MULTILINE)
_PASSIVE: Final = re.compile(
    r"\b(?:is|are|was|were|be|been|being|gets?|got)\s+(?:\w+ly\s+|not\s+|never\s+|also\s+|only\s+|then\s+)?"
    r"(?:\w+ed|read|written|taken|made|given|seen|known|shown|kept|held|sent|set|found|left|lost|told|said|done|put|begun|"
    r"run|built|chosen|understood|brought|thrown|drawn)\b",
    re.IGNORECASE,
)
_YOU: Final = re.compile(r"\byou(?:r|rs|'\w+)?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Counts:
    """What the review of a text counts."""

    words: int
    sentences: int
    median: float
    over_30: float
    passive: float
    you: float

    def row(self, name: str) -> str:
        shares = " | ".join(f"{share:.0%}" for share in (self.over_30, self.passive, self.you))
        return f"| {name} | {self.words} | {self.sentences} | {self.median:g} | {shares} |"


def user_pages() -> list[Path]:
    """The pages of the site's menu but those of the project."""
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    return [ROOT / "docs" / name for entry in menu if PROJECT not in entry for name in _files(entry)]


def _files(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, list):
        for one in entry:
            yield from _files(one)
    elif isinstance(entry, dict):
        for one in entry.values():
            yield from _files(one)


def plain(page: str) -> str:
    """A page's own words: without code, comments, addresses of links and marks."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->|^:::[^\n]*$|^!\[[^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`\n]*`", "X", text).replace("*", "")


def sentences(text: str) -> list[str]:
    """The sentences of prose and of table cells; headings are none."""
    lines = [line for line in text.splitlines() if not re.match(r"^\s*(#|\|[-| ]+\|?$|!!!)", line)]
    prose = "\n".join(
        "\n\n" + line.strip(" |").replace(" | ", ".\n\n") + "\n\n" if line.lstrip().startswith("|") else line
        for line in lines
    )
    prose = re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "\n\n", prose, flags=re.MULTILINE)
    found = []
    for paragraph in re.split(r"\n\s*\n", prose):
        found += re.split(r"(?<=[.!?:])\s+(?=[A-Z“\"(X])", " ".join(paragraph.split()))
    return [one for one in found if len(one.split()) >= 4]


def counts(texts: Iterable[str]) -> Counts:
    """The figures over some pages together."""
    plains = [plain(text) for text in texts]
    every = [one for text in plains for one in sentences(text)]
    lengths = [len(one.split()) for one in every] or [0]
    share = max(len(every), 1)
    return Counts(
        words=sum(len(text.split()) for text in plains),
        sentences=len(every),
        median=statistics.median(lengths),
        over_30=sum(length > 30 for length in lengths) / share,
        passive=sum(bool(_PASSIVE.search(one)) for one in every) / share,
        you=sum(bool(_YOU.search(one)) for one in every) / share,
    )


# ---- the word list ----------------------------------------------------------------------------------


def word_list() -> list[re.Pattern[str]]:
    """The words that no page and no text has, as style.md lists them."""
    return [re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE) for word in _WORD.findall(STYLE.read_text("utf-8"))]


def literals(source: str) -> Iterator[tuple[int, str]]:
    """The texts of a module, with their lines: literals, without docstrings."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def _without_code(page: str) -> str:
    """A page whose blocks of code are empty lines, so that the others keep their numbers."""
    return re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), page, flags=re.DOTALL | re.MULTILINE)


def _lines() -> Iterator[tuple[Path, int, str]]:
    """Every line that a person may read: of the pages, of the product's texts and of its templates."""
    for page in (ROOT / "README.md", *user_pages()):
        yield from ((page, *one) for one in enumerate(_without_code(page.read_text("utf-8")).splitlines(), 1))
    for path in sorted((ROOT / "airflow_cdc").rglob("*.py")):
        yield from ((path, *one) for one in literals(path.read_text("utf-8")))
    for path in sorted((ROOT / "airflow_cdc").rglob("*.j2")):
        yield from ((path, *one) for one in enumerate(path.read_text("utf-8").splitlines(), 1))


def faults(words: list[re.Pattern[str]]) -> Iterator[str]:
    """Each word of the list where it stands."""
    for path, number, text in _lines():
        yield from (f"{path.relative_to(ROOT)}:{number}: {word[0]}" for one in words if (word := one.search(text)))


def main(argv: list[str]) -> int:
    """Print the figures of each user page and of all; with `check` the faults, and 1 if there are any."""
    if argv == ["check"]:
        bad = list(faults(word_list()))
        sys.stdout.writelines(f"{one} (docs/project/style.md says what to write)\n" for one in bad)
        return int(bool(bad))
    pages = user_pages()
    lines = ["| page | words | sentences | median | over 30 words | passive | you |", "|---|---|---|---|---|---|---|"]
    lines += [counts([page.read_text("utf-8")]).row(str(page.relative_to(ROOT))) for page in pages]
    lines.append(counts(page.read_text("utf-8") for page in pages).row(f"{len(pages)} pages"))
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
