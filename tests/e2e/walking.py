"""Somebody who does what a page says, block by block, in the order and the terminals that it names.

Only addresses, passwords and folders are others than on the page: `Reader.words`. What a variable is set to in one block holds
in the next, as in a terminal. A block of `text title="dialogue"` is a command that asks, and what is typed.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

_BLOCK: Final = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.DOTALL | re.MULTILINE)
# the same step in another way, up to the next heading
_OTHER_WAY: Final = re.compile(r"^!!! note \"Without a terminal\".*?(?=^## )", re.DOTALL | re.MULTILINE)
_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>])|\r")
COMMAND_S: Final = 900.0
# a loaded machine imports Airflow for seconds before a command asks
QUESTION_S: Final = 180.0
# of the two users of the database: on the page → here
PASSWORDS: Final = {"choose-one": "of-cdc-7f3a", "choose-another": "of-debezium-91c2"}


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page: its language, its title ("" without one) and its text."""

    language: str
    title: str
    text: str


def blocks(page: Path, section: str = "") -> list[Block]:
    """What a page says to do; `section`: only what follows this heading of the second level."""
    text = page.read_text(encoding="utf-8")
    if section:
        text = text.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    return [Block(*found) for found in _BLOCK.findall(_OTHER_WAY.sub("", text))]


@dataclass(slots=True)
class Reader:
    """What a page is done with. `sql`: an administrator's client, which takes statements; `folder`: for the terminal's variables.

    `clients`: those of other servers, by the title of the blocks that are meant for them. A block of YAML is pipelines.yaml.
    `said` holds each command with what it printed, in order, and `seconds` what each took.
    """

    environment: Mapping[str, str]
    folder: Path
    words: Mapping[str, str]
    sql: Callable[[list[str]], None]
    clients: Mapping[str, Callable[[list[str]], None]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def do(self, block: Block) -> None:
        """One block."""
        text = block.text
        for word, instead in self.words.items():
            text = text.replace(word, instead)
        if block.language == "sql":
            ask = self.clients[block.title] if block.title else self.sql
            ask([statement.strip() for statement in text.split(";") if statement.strip()])
        elif block.language == "yaml":
            (Path(self.environment["AIRFLOW_HOME"]) / "pipelines.yaml").write_text(text)
        elif block.title == "dialogue":
            self._talk(text)
        else:
            self._type(text)

    def output(self, word: str) -> str:
        """What the command with this word printed. Raises StopIteration if none was typed."""
        return next(said for said in self.said if word in said.splitlines()[0])

    @property
    def transcript(self) -> str:
        return "\n".join(f"({seconds:.0f} s) {one}" for seconds, one in zip(self.seconds, self.said, strict=True))

    def _type(self, text: str) -> None:
        """Into the terminal; each command of the block has to succeed."""
        for command in _commands(text):
            began = time.monotonic()
            done = subprocess.run(
                ["bash", "-c", self.in_the_terminal(command)],
                env=dict(self.environment),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=COMMAND_S,
                check=False,
            )
            self._note(command, done.stdout, began)
            assert done.returncode == 0, self.transcript[-6000:]

    def _note(self, command: str, printed: str, began: float) -> None:
        self.said.append(f"$ {command}\n{printed}")
        self.seconds.append(time.monotonic() - began)

    def in_the_terminal(self, command: str) -> str:
        """The command after what was exported before it."""
        kept = self.folder / "terminal.env"
        return f"set -e\n[ -f {kept} ] && . {kept}\n{command}\nexport -p > {kept}\n"

    def _talk(self, text: str) -> None:
        """The command on the first line, and one answer for each further line, where what is asked is what the page says."""
        first, *lines = text.strip().splitlines()
        command = first.removeprefix("$ ")
        began = time.monotonic()
        with _Terminal(self.in_the_terminal(command), self.environment) as terminal:
            for line in lines:
                asked = terminal.question()
                # a page has no blank at the end of a line
                assert line.startswith(asked.rstrip()), (
                    f"the page: {line}\nthe command: {asked}\n{terminal.text[-3000:]}"
                )
                terminal.answer(line[len(asked.rstrip()) :].strip())
            status = terminal.end()
        self._note(command, terminal.text, began)
        assert status == 0, self.transcript[-6000:]


def _commands(text: str) -> Iterator[str]:
    """The commands of a block; a here-document and a continued line belong to theirs."""
    lines, end = [], ""
    for line in text.splitlines():
        lines.append(line)
        if not end and (found := re.search(r"<<(\w+)$", line)):
            end = found[1]
        elif end and line == end:
            end = ""
        if not end and not line.endswith("\\"):
            command = "\n".join(lines)
            lines = []
            if command.strip() and not command.startswith("#"):
                yield command


class _Terminal:
    """A command at a terminal of its own, wide enough that no line is broken."""

    def __init__(self, command: str, environment: Mapping[str, str]) -> None:
        self.text = ""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 2000, 0, 0))
        self._child = subprocess.Popen(
            ["bash", "-c", command],
            env={**environment, "TERM": "dumb"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait(30)
        os.close(self._ours)

    def question(self) -> str:
        """The line that the command waits at."""
        until = time.monotonic() + QUESTION_S
        while time.monotonic() < until:
            more = self._read(0.7)
            line = self.text.rpartition("\n")[2]
            if not more and line.endswith(": "):
                return line
            assert self._child.poll() is None, f"it ended instead of asking:\n{self.text[-3000:]}"
        raise AssertionError(f"it asked nothing:\n{self.text[-3000:]}")

    def answer(self, text: str) -> None:
        """Type a line."""
        os.write(self._ours, f"{text}\n".encode())

    def end(self) -> int:
        """Wait for the command's end, which may ask nothing more; its exit status."""
        until = time.monotonic() + COMMAND_S
        while self._child.poll() is None and time.monotonic() < until:
            self._read(1)
        while self._read(0.2):
            pass
        assert self._child.poll() is not None, f"it did not end:\n{self.text[-3000:]}"
        return self._child.returncode

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], seconds)
        if not ready:
            return False
        try:
            read = os.read(self._ours, 65536)
        except OSError:  # the command has closed its terminal
            return False
        self.text += _ESCAPE.sub("", read.decode(errors="replace"))
        return bool(read)


@contextmanager
def recorded(reader: Reader, page: str) -> Iterator[None]:
    """What is typed and said within the block is written to a file, however it ends."""
    try:
        yield
    finally:
        Path("build").mkdir(exist_ok=True)
        Path(f"build/{page}-page.txt").write_text(reader.transcript)


def walk(reader: Reader, steps: Iterable[Block], page: str) -> None:
    """Do the steps, and keep what was typed and said."""
    with recorded(reader, page):
        for step in steps:
            reader.do(step)


def proven(reader: Reader, passwords: Iterable[str] = tuple(PASSWORDS.values())) -> None:
    """What a page that ends in a proven copy says that one should see."""
    assert re.search(r"\bbad\b", reader.output("cdc doctor")) is None
    assert "MATCH" in reader.output("cdc proof")
    assert "HEALTHY" in reader.output("cdc diagnose")
    assert [password for password in passwords if password in reader.output("cdc init")] == []
