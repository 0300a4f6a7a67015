"""Cursors in meta.dat: what stays to the byte, what a write changes, and how it is undone. ZooKeeper's are tested on a real one."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from airflow_cdc.connectors.canal.cursor import CursorCodec
from airflow_cdc.connectors.canal.stores import file
from airflow_cdc.connectors.canal.stores.cursors import CLIENT, CursorStore
from airflow_cdc.connectors.canal.stores.file import FileCursors
from airflow_cdc.core.errors import ConnectorError, OffsetRejectedError
from airflow_cdc.core.offset import RawOffset
from airflow_cdc.flows.offsets import replace_offset
from tests.unit.connectors.canal.test_cursor import REAL, at, real

META = (
    '{"clientDatas":[{"clientIdentity":{"clientId":1001,"destination":"shop","filter":""},"cursor":'
    + REAL
    + '},{"clientIdentity":{"clientId":1002,"destination":"shop","filter":""},"cursor":'
    + REAL.replace('"position":801', '"position":4')
    + '}],"destination":"shop"}'
)


def stopped() -> None:
    """The server does not run."""


@pytest.fixture
def meta(tmp_path: Path) -> Path:
    path = tmp_path / "meta.dat"
    path.write_text(META)
    path.chmod(0o640)
    return path


@pytest.fixture
def store(meta: Path) -> CursorStore:
    return CursorStore(FileCursors(meta, "shop"), stopped)


def test_every_clients_cursor_is_read(meta: Path) -> None:
    assert FileCursors(meta, "shop").read() == {1001: real(), 1002: at(position=4)}
    assert FileCursors(meta.with_name("none"), "shop").read() == {}


@pytest.mark.parametrize("cut", [0, 1, len(META) - 1])
def test_a_file_that_canal_is_writing_is_read_when_it_is_whole(meta: Path, cut: int) -> None:
    """Canal 1.1.8 empties the file each second and writes it anew in place."""
    meta.write_text(META[:cut])
    writer = Timer(0.2, meta.write_text, (META,))
    writer.start()
    assert FileCursors(meta, "shop").read() == {1001: real(), 1002: at(position=4)}
    writer.join()


def test_a_file_that_stays_cut_off_is_an_error(meta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "_WRITTEN_S", 0.1)
    meta.write_text(META[:-1])
    with pytest.raises(ConnectorError, match=r"meta\.dat holds no cursor"):
        FileCursors(meta, "shop").read()


def test_a_write_sets_every_client_and_changes_nothing_else(store: CursorStore, meta: Path) -> None:
    store.write(at(position=900))
    assert meta.read_text() == META.replace('"position":801', '"position":900').replace(
        '"position":4', '"position":900'
    )
    assert meta.with_name("meta.dat.before").read_text() == META
    assert (meta.stat().st_mode & 0o777, sorted(path.name for path in meta.parent.iterdir())) == (
        0o640,
        ["meta.dat", "meta.dat.before"],
    )
    assert store.read() == at(position=900)


def test_a_write_that_reads_back_differently_is_undone_to_the_byte(store: CursorStore, meta: Path) -> None:
    class Forgets:
        """A store that shows something else than was written."""

        def write(self, raw: RawOffset | None) -> None:
            store.write(raw)

        def read(self) -> dict[str, Any]:
            return at(position=5)

    with pytest.raises(OffsetRejectedError, match="the old offset was restored"):
        replace_offset(Forgets(), CursorCodec(), real(), at(position=900), where="here")
    assert meta.read_text() == META


def test_where_there_was_no_file_one_is_made_and_taken_away_again(store: CursorStore, meta: Path) -> None:
    meta.unlink()
    store.write(real())
    (client,) = json.loads(meta.read_text())["clientDatas"]
    assert (client["clientIdentity"]["clientId"], client["cursor"]) == (CLIENT, real())
    store.write(None)
    assert not meta.exists()


def test_taking_the_cursor_away_leaves_the_clients(store: CursorStore, meta: Path) -> None:
    store.write(None)
    assert FileCursors(meta, "shop").read() == {1001: None, 1002: None}


def test_somebody_else_who_wrote_meanwhile_is_noticed(meta: Path) -> None:
    cursors = FileCursors(meta, "shop")
    before = cursors.stored()
    meta.write_text(META.replace("801", "802"))
    with pytest.raises(ConnectorError, match="somebody else wrote the cursor meanwhile"):
        cursors.replace(before, real())
    assert "802" in meta.read_text()


def test_a_server_that_runs_is_asked_first(meta: Path) -> None:
    def runs() -> None:
        raise ConnectorError("it runs")

    with pytest.raises(ConnectorError, match="it runs"):
        CursorStore(FileCursors(meta, "shop"), runs).write(real())
    assert meta.read_text() == META


@pytest.mark.parametrize("content", ["", "[]", "{", '{"clientDatas":[{"cursor":{}}]}', '{"clientDatas":[1]}'])
def test_a_file_that_cannot_be_read_is_an_error_and_is_left_alone(meta: Path, content: str) -> None:
    meta.write_text(content)
    with pytest.raises(ConnectorError, match=r"meta\.dat"):
        FileCursors(meta, "shop").read()
    assert meta.read_text() == content
