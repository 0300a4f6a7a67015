"""The engine by its operator's commands, its properties file and its file of offsets. A real one: tests/integration."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium_engine.connector import DebeziumEngine
from airflow_cdc.connectors.debezium_engine.endpoint import EngineEndpoint
from airflow_cdc.connectors.debezium_engine.java_map import JavaMap
from airflow_cdc.connectors.debezium_engine.stores.file import FileOffsets
from airflow_cdc.core.errors import ConnectorError, DeadlineError, OffsetRejectedError
from airflow_cdc.core.offset import OffsetEntry, RawOffset
from airflow_cdc.flows.offsets import replace_offset
from tests.unit.connectors.debezium_engine.test_log import LOG

VALUE = {"ts_sec": 1795613867, "file": "mysql-bin.000001", "pos": 4, "server_id": 101}
OTHER = {**VALUE, "pos": 900}
KEY = '["kafka",{"server":"shop"}]'
STRANGER = '["other",{"server":"shop"}]'
CONFIG = """\
debezium.sink.type=kafka
debezium.source.topic.prefix=shop
debezium.source.offset.storage=org.apache.kafka.connect.storage.FileOffsetBackingStore
debezium.source.offset.storage.file.filename={folder}/offsets.dat
debezium.source.heartbeat.interval.ms=1000
"""


@dataclass(frozen=True)
class Place:
    """A folder with what an engine has; `runs` is there while it runs."""

    folder: Path

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def config(self) -> Path:
        return self.folder / "application.properties"

    @property
    def offsets(self) -> Path:
        return self.folder / "offsets.dat"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def engine(self, **other: object) -> DebeziumEngine:
        def python(code: str) -> tuple[str, ...]:
            return (sys.executable, "-c", f"import pathlib, sys; runs = pathlib.Path({str(self.runs)!r}); {code}")

        made = {
            "machine": "here",
            "config": str(self.config),
            "log": str(self.log),
            "start": python("runs.touch()"),
            "stop": python("runs.unlink()"),
            "status": python("sys.exit(0 if runs.exists() else 3)"),
            **other,
        }
        return DebeziumEngine(EngineEndpoint(**made), MySqlCodec())  # type: ignore[arg-type]


def stored(values: dict[str, object]) -> bytes:
    return JavaMap({key.encode(): json.dumps(value).encode() for key, value in values.items()}).to_bytes()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.config.write_text(CONFIG.format(folder=tmp_path))
    made.offsets.write_bytes(stored({STRANGER: OTHER, KEY: VALUE}))
    return made


def test_it_is_stopped_and_started_by_commands(place: Place) -> None:
    engine = place.engine()
    assert engine.state("shop").state == "STOPPED"
    engine.resume("shop")
    engine.wait_running("shop")
    state = engine.state("shop")
    assert (state.state, [task.state for task in state.tasks]) == ("RUNNING", ["RUNNING"])
    engine.stop("shop")
    assert not place.runs.exists()
    engine.stop("shop")


def test_an_engine_that_does_not_end_is_not_stopped(place: Place) -> None:
    place.runs.touch()
    engine = place.engine(stop=(sys.executable, "-c", ""))
    with pytest.raises(DeadlineError, match="to end"):
        engine.stop("shop", timeout=1.0)


def test_an_engine_that_has_ended_says_why(place: Place) -> None:
    place.log.write_text(LOG)
    engine = place.engine(start=(sys.executable, "-c", ""))
    state = engine.state("shop")
    assert (state.state, [task.state for task in state.tasks]) == ("STOPPED", ["FAILED"])
    assert "no longer available" in state.failures[0]
    engine.resume("shop")
    with pytest.raises(DeadlineError, match="it does not run"):
        engine.wait_running("shop", timeout=0.5)  # what its log says is from before
    place.log.write_text(LOG + LOG)
    with pytest.raises(ConnectorError, match="no longer available"):
        engine.wait_running("shop")


def test_only_its_own_offsets_are_its_own(place: Place) -> None:
    engine = place.engine()
    assert engine.entries("shop") == (OffsetEntry({"server": "shop"}, VALUE),)
    assert engine.committed_offset("shop", "shop") == VALUE
    assert engine.committed_offset("shop", "other") is None
    place.offsets.unlink()
    assert engine.entries("shop") == ()


def test_an_offset_is_written_with_its_neighbours_untouched(place: Place) -> None:
    before = place.offsets.read_bytes()
    store = place.engine().offset_store("shop", {"server": "shop"})
    replace_offset(store, MySqlCodec(), VALUE, OTHER, where="here")
    assert store.read() == OTHER
    assert FileOffsets(place.offsets).read()[STRANGER] == json.dumps(OTHER)
    assert place.offsets.with_name("offsets.dat.before").read_bytes() == before
    store.write(VALUE)
    assert place.offsets.read_bytes() == before
    store.write(None)
    assert store.read() is None


def test_a_first_offset_makes_the_file(place: Place) -> None:
    place.offsets.unlink()
    place.engine().offset_store("shop", {"server": "shop"}).write(VALUE)
    assert list(FileOffsets(place.offsets).read()) == [KEY]


def test_a_write_that_reads_back_differently_is_undone_to_the_byte(place: Place) -> None:
    before = place.offsets.read_bytes()
    store = place.engine().offset_store("shop", {"server": "shop"})

    class Forgets:
        """A store that shows something else than was written."""

        def write(self, raw: RawOffset | None) -> None:
            store.write(raw)

        def read(self) -> RawOffset | None:
            return {**OTHER, "pos": 5}

    with pytest.raises(OffsetRejectedError, match="the old offset was restored"):
        replace_offset(Forgets(), MySqlCodec(), VALUE, OTHER, where="here")
    assert place.offsets.read_bytes() == before


def test_nothing_is_written_while_it_runs_or_nobody_knows(place: Place) -> None:
    before = place.offsets.read_bytes()
    place.runs.touch()
    for engine, said in (
        (place.engine(), "would write over the offset"),
        (place.engine(status=(sys.executable, "-c", "raise SystemExit(1)")), r"connector\.status ended with 1"),
    ):
        with pytest.raises(ConnectorError, match=said):
            engine.offset_store("shop", {"server": "shop"}).write(OTHER)
    assert place.offsets.read_bytes() == before


def test_what_somebody_else_wrote_meanwhile_stays(place: Place) -> None:
    offsets = FileOffsets(place.offsets)
    with pytest.raises(ConnectorError, match="somebody else wrote"):
        offsets.replace(KEY, "{}", json.dumps(OTHER))
    assert json.loads(offsets.read()[KEY] or "") == VALUE


def test_a_file_that_holds_something_else_is_refused(place: Place) -> None:
    place.offsets.write_bytes(b"no map")
    with pytest.raises(ConnectorError, match=r"holds no offsets.*connector\.offsets_file"):
        place.engine().entries("shop")
    place.offsets.write_bytes(stored({KEY: [1]}))
    with pytest.raises(ConnectorError, match="not a JSON object"):
        place.engine().entries("shop")
    place.offsets.write_bytes(b"")
    assert place.engine().entries("shop") == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("debezium.source.offset.storage=io.debezium.storage.redis.offset.RedisOffsetBackingStore", "Redis"),
        ("debezium.source.offset.storage=org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "Memory"),
        ("debezium.source.offset.storage=${OFFSET_STORAGE}", "OFFSET_STORAGE"),
        ("debezium.source.offset.storage=io.debezium.storage.jdbc.offset.JdbcOffsetBackingStore", "conn_id names none"),
        ("debezium.source.offset.storage.file.filename=data/offsets.dat", r"connector\.offsets_file"),
        ("debezium.source.topic.prefix=", "has no topic.prefix"),
        ("debezium.sink.type=", "does not name the engine"),
    ],
)
def test_inv_40_an_offset_that_cannot_be_read_is_said_by_name_beside_what_is_known(
    place: Place, line: str, said: str
) -> None:
    place.config.write_text(f"{place.config.read_text()}{line}\n")
    with pytest.raises(ConnectorError, match=said):
        place.engine().entries("shop")
    place.log.write_text(LOG)
    facts = place.engine().facts("shop")
    assert re.search(said, facts.offset_unseen)
    assert (facts.offset, facts.key, facts.state) == (None, None, "STOPPED")
    assert facts.heartbeats
    assert "no longer available" in facts.tasks[0].trace


def test_inv_43_an_offset_is_read_once_it_is_kept_as_the_advice_says(place: Place) -> None:
    whole = place.config.read_text()
    place.config.write_text(whole.replace("FileOffsetBackingStore", "MemoryOffsetBackingStore"))
    unseen = place.engine().facts("shop").offset_unseen
    store = re.search(r"keep it by (\w+) or", unseen)
    assert store is not None
    place.config.write_text(whole.replace("FileOffsetBackingStore", store[1]))
    assert place.engine().facts("shop").offset_unseen == ""


def test_without_a_storage_the_engine_takes_a_file(place: Place) -> None:
    lines = place.config.read_text().splitlines(keepends=True)
    place.config.write_text("".join(line for line in lines if "offset.storage=" not in line))
    facts = place.engine().facts("shop")
    assert (facts.offset.raw if facts.offset else None, facts.offset_unseen) == (VALUE, "")


def test_the_file_may_be_elsewhere_for_the_worker(place: Place) -> None:
    other = place.offsets.rename(place.folder / "elsewhere.dat")
    assert place.engine(offsets_file=str(other)).committed_offset("shop", "shop") == VALUE


def test_settings_are_changed_in_the_file_and_back(place: Place) -> None:
    engine = place.engine()
    before = dict(engine.raw_config("shop"))
    after = {**before, "snapshot.mode": "recovery", "heartbeat.interval.ms": "500"}
    engine.change_config("shop", before, after)
    assert engine.raw_config("shop") == after
    engine.change_config("shop", after, before)
    assert place.config.read_text() == CONFIG.format(folder=place.folder)


def test_a_file_that_may_not_be_written_names_what_to_set_by_hand(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = place.engine()
    before = dict(engine.raw_config("shop"))

    def refused(_path: Path, _flags: int, _mode: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("airflow_cdc.files.os.open", refused)
    with pytest.raises(ConnectorError, match=r"set by hand: debezium\.source\.snapshot\.mode=recovery"):
        engine.change_config("shop", before, {**before, "snapshot.mode": "recovery"})
