"""A Hudi table's copy, what completed after a commit, and who wrote last."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_cdc.core.observation import OtherCommit
from airflow_cdc.sinks.hudi import timeline
from airflow_cdc.sinks.hudi.client import NOTES, HudiSink, after, copy_table
from airflow_cdc.sinks.hudi.endpoint import HudiEndpoint
from tests.unit.sinks.hudi.test_timeline import STAMPED, commit, instant, rows


def test_what_completed_after_a_commit_is_what_stands_behind_it_and_all_where_it_is_gone(tmp_path: Path) -> None:
    versions = [commit(tmp_path, number) for number in (1, 2, 3)]
    known = timeline.commits(tmp_path)
    assert [[one.version for one in after(known, version)] for version in versions] == [versions[1:], versions[2:], []]
    assert after(known, 7) == known
    assert after((), 7) == ()


@pytest.mark.parametrize("again", [False, True], ids=["once", "killed and begun again"])
def test_a_copy_has_every_commit_and_file_of_the_table_and_none_of_its_notes(tmp_path: Path, again: bool) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    version = commit(source, 1)
    rows(source, "a", 1, 3)
    (source / NOTES).write_text("{}")
    for _ in range(2 if again else 1):
        copy_table(source, target)
    assert timeline.commits(target) == timeline.commits(source)
    assert timeline.rows_at(target, version) == 3
    assert not (target / NOTES).exists()


def test_a_copy_of_a_table_that_nobody_wrote_to_is_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    copy_table(tmp_path / "source", tmp_path / "target" / "deep")
    assert list((tmp_path / "target" / "deep").iterdir()) == []
    copy_table(tmp_path / "source", tmp_path / "target" / "deep")


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        ((), False),
        ((True,), False),
        ((False,), True),
        ((True, False), True),
        ((False, True), False),
        ((True, True, False), True),
    ],
    ids=str,
)
def test_another_program_is_named_where_the_newest_commit_is_not_ours(
    tmp_path: Path, ours: tuple[bool, ...], other: bool
) -> None:
    sink = HudiSink(HudiEndpoint(str(tmp_path)))
    sink.ensure_table("shop", "orders", (("id", "bigint"),))
    folder = sink.folder(("shop", "orders"))
    for number, own in enumerate(ours, 1):
        commit(folder, number, summary=STAMPED if own else {})
    facts = sink.facts("shop", "orders")
    newest = timeline.commits(folder)[-1] if ours else None
    assert facts.head == (newest.version if newest else 0)
    assert facts.other == (OtherCommit(newest.version, newest.at) if newest and other else None)
    assert (facts.stamp is not None) is any(ours)


@pytest.mark.parametrize("millis", ["000", "007", "070", "700", "999"])
def test_a_commits_time_is_that_of_its_instant_to_the_millisecond(tmp_path: Path, millis: str) -> None:
    commit(tmp_path, 1)
    place = tmp_path / ".hoodie" / "timeline"
    (file,) = place.iterdir()
    file.rename(place / f"{instant(1)}_20260101000009{millis}.commit")
    (one,) = timeline.commits(tmp_path)
    assert one.at == pytest.approx(1767225609 + int(millis) / 1000, abs=1e-6)
