"""Files go to workers the longest first, and those of one room to one worker."""

from __future__ import annotations

import pytest

from tests.times.order import following, room, workers

LEFT = {
    "tests/integration/flink/test_a.py": 30.0,
    "tests/integration/flink/test_b.py": 50.0,
    "tests/integration/canal/test_a.py": 70.0,
    "tests/integration/test_long.py": 200.0,
    "tests/integration/test_short.py": 5.0,
}


@pytest.mark.parametrize(
    ("visited", "taken", "file"),
    [
        pytest.param([], [], "tests/integration/flink/test_b.py", id="the room with the most to do, its longest file"),
        pytest.param([], ["integration/flink"], "tests/integration/canal/test_a.py", id="a room that nobody is in"),
        pytest.param(["integration/canal"], [], "tests/integration/canal/test_a.py", id="the room that it is in"),
        pytest.param(
            [], ["integration/flink", "integration/canal"], "tests/integration/test_long.py", id="a file of no room"
        ),
    ],
)
def test_a_worker_stays_in_its_room_then_takes_a_free_one_then_a_file_of_none(
    visited: list[str], taken: list[str], file: str
) -> None:
    assert following(LEFT, visited, [*taken, *visited]) == file


def test_nobody_is_idle_while_another_s_room_has_files() -> None:
    left = {file: seconds for file, seconds in LEFT.items() if "flink" in file}
    assert following(left, [""], ["integration/flink"]) == "tests/integration/flink/test_b.py"


def test_only_folders_of_the_integration_tests_and_other_tests_are_rooms() -> None:
    assert room("tests/integration/test_a.py") == ""
    assert room("tests/integration/flink/test_a.py") == "integration/flink"
    assert room("tests/faults/test_short_matrix.py") == "faults"


@pytest.mark.parametrize(
    ("cores", "gigabytes", "number"), [(2, 23.4, 3), (2, 16, 2), (2, 7, 1), (1, 64, 1), (8, 32, 6)]
)
def test_files_run_side_by_side_as_memory_allows(cores: int, gigabytes: float, number: int) -> None:
    assert workers(cores, gigabytes) == number
