"""The short form of `make fuzz`: a few inputs of every parser, the same each time, and all that once broke one.

The suite's own detections are seen to fail here: an error that is not documented, a loop, and an allocation.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import corpus
from tests.fuzz.__main__ import Tried, run
from tests.fuzz.limits import BYTES, FaultError, measured
from tests.fuzz.mutate import json_texts, texts
from tests.fuzz.parser import Parser
from tests.fuzz.table import PARSERS
from tests.unit.fuzzing import many

# sets of regular expressions, which Java reads like Python but where Python may once change its mind
pytestmark = pytest.mark.filterwarnings("ignore:Possible:FutureWarning")

BY_NAME = {parser.name: parser for parser in PARSERS}
FOUND = list(corpus.kept())
INPUTS = 25


def test_each_parser_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(PARSERS) > 100
    assert {name for name, _ in FOUND} <= BY_NAME.keys()


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_it_reads_every_input_or_says_why_not(parser: Parser) -> None:
    @many(INPUTS * parser.turn // 300)
    @given(parser.inputs)
    def each(value: Any) -> None:
        parser.check(value)

    each()


@pytest.mark.parametrize("number", range(len(FOUND)), ids=[name for name, _ in FOUND])
def test_what_once_broke_a_parser_is_read(number: int) -> None:
    name, value = FOUND[number]
    BY_NAME[name].check(value)


# --- the suite itself ------------------------------------------------------------------------------------------------


def test_a_parser_for_which_no_time_was_left_is_tried_all_the_same() -> None:
    tried = run([BY_NAME["duration"], BY_NAME["limit"]], 0.0, 1)
    assert [one.parser for one in tried if one.examples < 100] == []


def raises(value: str) -> object:
    return dict[str, str]()[value]


def loops(value: str) -> None:
    while value is not None:
        pass


def takes_long(value: str) -> None:
    end = time.thread_time() + 1.05
    while time.thread_time() < end and value is not None:
        pass


def allocates(value: str) -> object:
    return bytearray(BYTES + (50 << 20)), value


def hoards(value: str) -> object:
    return [f"{value * 1000}{number}" for number in range(400_000)]


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (raises, r"undocumented KeyError in no line of ours: 'x'"),
        (loops, r"does not end within 1\.5 s of processor time"),
        (takes_long, r"it takes 1\.\d s of processor time"),
        (allocates, r"needs more than 200 MB"),
        (hoards, r"needs more than 200 MB"),
    ],
)
def test_a_parser_that_breaks_its_promise_is_at_fault(read: Callable[[Any], object], says: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(FaultError, match=says):
        Parser("x", read, st.just("x")).check("x")
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_documented_error_is_no_fault_and_waiting_costs_no_processor_time() -> None:
    assert measured(lambda: raises("x"), (KeyError,)) < 0.5
    assert measured(lambda: time.sleep(1.1), ()) < 0.5


def test_a_fault_is_noted_once_and_its_shortest_input_is_kept(tmp_path: Path) -> None:
    tried = Tried("x")
    tried.turn(Parser("x", raises, st.text(min_size=1, max_size=9), turn=30), 1)
    assert list(tried.faults) == ["undocumented KeyError in no line of ours"]
    assert (tried.examples, len(next(iter(tried.faults.values())))) == (30, 1)
    path = tmp_path / "found.jsonl"
    for value in ("é\ud800", (b"\xff", None), {"a": [1, 2.5]}, "é\ud800"):
        assert corpus.keep("x", value, path)
    assert not corpus.keep("x", object(), path)
    assert [value for _, value in corpus.kept(path)] == ["é\ud800", (b"\xff", None), {"a": [1, 2.5]}]


@many(300)
@given(texts("a 12 b"), json_texts({"a": [1, {"b": "c"}]}))
def test_mutations_stay_small_enough_for_a_test(text: str, document: str) -> None:
    assert len(text) <= 60_000
    assert len(document) < 300_000
