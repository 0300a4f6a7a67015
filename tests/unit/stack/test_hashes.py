"""constraints-hashed.txt covers constraints.txt exactly: the same pins, each with the checksum of its files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from stack import sbom
from stack.errors import StackError
from stack.hashes import document, gathered, hashed, pins, requirements
from tests.paths import ROOT

PINS = (ROOT / "constraints.txt").read_text()
HASHED = (ROOT / "constraints-hashed.txt").read_text()
A, B = "a" * 64, "b" * 64


def test_the_hashed_file_covers_the_constraints_exactly() -> None:
    covered = hashed(HASHED)
    assert {name: line for name, (line, _) in covered.items()} == pins(PINS)
    assert [name for name, (_, hashes) in covered.items() if not hashes] == []
    assert document(PINS, {name: hashes for name, (_, hashes) in covered.items()}) == HASHED


def test_it_names_no_place_that_files_come_from() -> None:
    assert "://" not in HASHED
    assert "--index-url" not in HASHED


def test_a_pin_that_is_new_or_changed_is_not_covered() -> None:
    """What the first test compares is seen to differ."""
    more = PINS + "zzz-new==1.0\n"
    assert pins(more) != {name: line for name, (line, _) in hashed(HASHED).items()}
    with pytest.raises(StackError, match=r"no file of zzz-new==1.0"):
        document(more, {name: hashes for name, (_, hashes) in hashed(HASHED).items()})


def test_what_pip_says_of_several_machines_is_one_line() -> None:
    def report(sha: str) -> dict[str, object]:
        info = {"archive_info": {"hashes": {"sha256": sha}}}
        return {"install": [{"metadata": {"name": "Some.Name"}, "download_info": info}]}

    known = gathered([report(B), report(A), report(A)])
    text = document("Some.Name==1.0\n", known)
    assert text.splitlines()[1:] == ["Some.Name==1.0 \\", f"    --hash=sha256:{A} \\", f"    --hash=sha256:{B}"]
    assert hashed(text) == {"some-name": ("Some.Name==1.0", frozenset({A, B}))}


def test_a_release_names_its_wheel_and_what_that_needs_and_no_more(tmp_path: Path) -> None:
    wheel = tmp_path / "provider-1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    lines = requirements(wheel, HASHED, sbom.names()).splitlines()
    assert lines[1] == f"./{wheel.name} --hash=sha256:{hashlib.sha256(b'wheel').hexdigest()}"
    named = [line.split("==")[0] for line in lines[2:] if not line.startswith(" ")]
    assert sorted(map(canonicalize_name, named)) == sorted(sbom.names())
    assert "pytest" not in named
    with pytest.raises(StackError, match=r"not pinned in constraints-hashed.txt: nothing-such"):
        requirements(wheel, HASHED, {"nothing-such"})


def test_a_line_that_pins_nothing_is_refused() -> None:
    with pytest.raises(StackError, match="pins no package"):
        pins("requests>=2\n")
