"""The pinned versions with the checksum of each file that pip may take for them: constraints-hashed.txt.

Pip itself says which file it would take on each Python and machine, and its checksum; where that file comes from is not
written down. An installation refuses any other bytes (`pip install --require-hashes`).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name

from stack import fetch
from stack.errors import StackError

# the newest patch of a series: a package may ask for a later one than the first
PYTHONS: Final = ("3.11.12", "3.12.10", "3.13.5")
MACHINES: Final = ("x86_64", "aarch64")
PLATFORMS: Final = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "linux")
HEADER: Final = "# made by `make hashes` from constraints.txt: pip install --require-hashes\n"
PINS: Final = Path(__file__).parents[1] / "constraints.txt"
HASHED: Final = PINS.with_name("constraints-hashed.txt")
_PIN: Final = re.compile(r"^([\w.-]+)==(\S+)")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
Hashes = Mapping[str, frozenset[str]]


def pins(text: str) -> dict[str, str]:
    """Package → the line that pins it, in the file's order. Raises StackError for a line of another form."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    matches = [(_PIN.match(line), line) for line in lines]
    if odd := [line for match, line in matches if match is None]:
        raise StackError(f"this pins no package: {odd[0]!r}")
    return {canonicalize_name(match[1]): line for match, line in matches if match}


def hashed(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Package → its pin and its checksums, as constraints-hashed.txt has them."""
    joined = text.replace("\\\n", " ")
    return {name: (line.split()[0], frozenset(_HASH.findall(line))) for name, line in pins(joined).items()}


def document(text: str, known: Hashes) -> str:
    """The hashed file for these pins. Raises StackError for a pin without a checksum."""
    lines = []
    for name, line in pins(text).items():
        if not known.get(name):
            raise StackError(f"no file of {line} was offered for any of {', '.join(PYTHONS)} on {', '.join(MACHINES)}")
        lines.append(" \\\n    ".join([line, *(f"--hash=sha256:{one}" for one in sorted(known[name]))]))
    return HEADER + "\n".join(lines) + "\n"


def requirements(wheel: Path, hashed_text: str, needed: Collection[str]) -> str:
    """The wheel and every package that it needs, each by version and checksum. Raises StackError for one without a pin.

    `needed` are those of this Python and machine; another may need one more, which pip then refuses by name.
    """
    covered = hashed(hashed_text)
    if unknown := sorted(set(needed) - set(covered)):
        raise StackError(f"not pinned in {HASHED.name}: {', '.join(unknown)}")
    known = {name: hashes for name, (_, hashes) in covered.items()}
    pinned = document("\n".join(covered[name][0] for name in sorted(needed)), known)
    own = f"./{wheel.name} --hash=sha256:{fetch.sha256_of(wheel)}\n"
    return "# pip install --require-hashes --requirement requirements.txt\n" + own + pinned.removeprefix(HEADER)


def gathered(reports: Iterable[Mapping[str, Any]]) -> Hashes:
    """Package → the checksums in what pip reported."""
    found: dict[str, set[str]] = {}
    for report in reports:
        for one in report["install"]:
            archive = one["download_info"]["archive_info"]
            found.setdefault(canonicalize_name(one["metadata"]["name"]), set()).add(archive["hashes"]["sha256"])
    return {name: frozenset(hashes) for name, hashes in found.items()}


def ask(constraints: Path) -> Hashes:
    """Ask pip on each Python and machine; nothing is installed."""
    with tempfile.TemporaryDirectory() as folder:
        return gathered(
            [_report(constraints, python, machine, Path(folder)) for python in PYTHONS for machine in MACHINES]
        )


def _report(constraints: Path, python: str, machine: str, folder: Path) -> Mapping[str, Any]:
    path = folder / "report.json"
    wanted = [word for name in PLATFORMS for word in ("--platform", f"{name}_{machine}")]
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
    argv += [
        "--target",
        str(folder),
        "--python-version",
        python,
        *wanted,
        "--report",
        str(path),
        "-r",
        str(constraints),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StackError(f"pip found no file for a pin on Python {python}, {machine}:\n{done.stderr[-1500:]}")
    report: Mapping[str, Any] = json.loads(path.read_text())
    return report
