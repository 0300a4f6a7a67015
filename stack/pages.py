"""The parts of README and documentation that are made from files and from the code: `python -m stack.pages`.

A part stands between two comments, so that it is seen where pages are read as they are, without a site:
`<!-- part: FILE -->`, `<!-- part: FILE:section -->` (between `[start:section]` and `[end:section]` of the file) or
`<!-- part: TABLE -->` of TABLES, and `<!-- end -->`. A test compares each with what it is made from.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from stack import recording

ROOT: Final = Path(__file__).resolve().parent.parent
_PART: Final = re.compile(r"<!-- part: (?P<name>\S+) -->\n.*?<!-- end -->", re.DOTALL)
_SECTION: Final = re.compile(r"^\W*--8<-- \[(start|end):(\w+)\]\s*$")
_LANGUAGES: Final = {".sql": "sql", ".sh": "sh", ".env": "sh", ".py": "python", ".yaml": "yaml"}


def pages() -> Iterator[Path]:
    """README and every page of the documentation."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def parts(text: str) -> list[str]:
    """The names of the parts of a page."""
    return [match["name"] for match in _PART.finditer(text)]


def filled(text: str) -> str:
    """The page with every part as it is now. Raises KeyError or OSError for a part that there is not."""
    return _PART.sub(lambda match: f"<!-- part: {match['name']} -->\n\n{part(match['name'])}\n<!-- end -->", text)


def part(name: str) -> str:
    """The text of a part."""
    if name in TABLES:
        return TABLES[name]()
    file, _, section = name.partition(":")
    path = ROOT / file
    return f"```{_LANGUAGES[path.suffix]}\n{_section(path.read_text(encoding='utf-8'), section)}```\n"


def _section(text: str, wanted: str) -> str:
    lines, inside = [], not wanted
    seen = inside
    for line in text.splitlines():
        match = _SECTION.match(line)
        if match is None:
            lines += [line] if inside else []
        elif match[2] == wanted:
            inside = match[1] == "start"
            seen = True
    if not seen:
        raise KeyError(wanted)
    return "\n".join(lines).strip("\n") + "\n"


def error_texts() -> str:
    """Error text → code → is anything lost?, from the code's own table."""
    from airflow_cdc.decisions.diagnosis.first_aid import rows
    from airflow_cdc.kinds import all_texts

    lines = ["| the error says | code | is anything lost? |", "|---|---|---|"]
    for says, code, lost in rows(all_texts()):
        lines.append(f"| `{says.replace('|', '')}` | [{code}](problems.md#{code.lower()}) | {lost} |")
    return "\n".join(lines) + "\n"


def strategies() -> str:
    """Each way to recover, from the table of the code: when, its steps, what it loses."""
    from airflow_cdc.decisions.diagnosis.strategy import NOTHING, STRATEGIES

    blocks, shown = [], dict[tuple[str, ...], str]()
    for row in STRATEGIES.values():
        steps = " → ".join(f"`{step}`" for step in row.steps) or "none: you do it by hand"
        if (same := shown.setdefault(tuple(row.steps), row.code)) != row.code:
            steps = f"as {same}"
        loses = "nothing" if row.data_loss == NOTHING else row.data_loss
        sink = "\n- **Without a sink:** works, too" if row.sinkless else ""
        source = "\n- **Sources:** only those that offer it" if row.special else ""
        blocks.append(f"### {row.code}\n\n{row.when}\n\n- **Steps:** {steps}\n- **Loses:** {loses}{source}{sink}\n")
    return "\n".join(blocks)


def commands() -> str:
    """Each command with its options, from the parser's own definition; what most of them take is said once."""
    from airflow_cdc.cli.definition import ARG_ANSWERS, get_cdc_cli_commands

    answers = {arg.flags for arg in ARG_ANSWERS}
    (group,) = get_cdc_cli_commands()
    own = {
        name: (
            action,
            [_option(arg) for arg in action.args if arg.flags not in answers and arg.flags[0] not in _EVERYWHERE],
        )
        for name, action in _actions("airflow cdc", group)
    }
    taken = Counter(option for _, options in own.values() for option in options)
    shared = {option for option, times in taken.items() if times >= _SHARED}
    blocks = ["\n".join(["Several commands take these:\n", *(_line(one) for one in taken if one in shared)]) + "\n"]
    for name, (action, options) in own.items():
        also = ", ".join(f"`{flags}`" for flags, _ in (one for one in options if one in shared))
        lines = [f"- {also}"] * bool(also) + [_line(one) for one in options if one not in shared]
        if name.endswith(" init"):
            lines.append("- one option for each question, grouped by `airflow cdc init --help`")
        blocks.append("\n".join((f"### {name}\n", f"{_unescaped(action.help)}.\n", *lines)) + "\n")
    return "\n".join(blocks)


def _option(arg: Any) -> tuple[str, str]:
    return ", ".join(arg.flags), _unescaped(arg.kwargs["help"])


def _line(option: tuple[str, str]) -> str:
    return f"- `{option[0]}`: {option[1]}"


# an option that so many commands take is explained above them
_SHARED: Final = 3
_EVERYWHERE: Final = ("-o", "--registry", "-v")


def _actions(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
    for one in group.subcommands:
        name = f"{prefix} {one.name}"
        yield from _actions(name, one) if hasattr(one, "subcommands") else [(name, one)]


def _unescaped(text: str) -> str:
    """Help as it is shown: written for Rich, brackets are escaped."""
    return text.replace("\\[", "[")


TABLES: Final[dict[str, Callable[[], str]]] = {
    "error-texts": error_texts,
    "strategies": strategies,
    "commands": commands,
}


def main() -> int:
    """Write every page whose parts have changed, and name it."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (now := filled(text)) != text:
            page.write_text(now, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(ROOT)}\n")
    recording.PICTURE.write_text(recording.picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
