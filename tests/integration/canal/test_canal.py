"""A pipeline with Canal and without a sink, on real servers, with the cursor in meta.dat and in ZooKeeper."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_cdc.connectors.canal.cursor import TYPE
from airflow_cdc.core.error_texts import match
from airflow_cdc.core.errors import ConnectorError, DeadlineError, OffsetRejectedError
from airflow_cdc.flows.forecast import forecast_pipeline
from airflow_cdc.flows.move_offset import last_before, move, stored
from airflow_cdc.flows.offsets import replace_offset
from airflow_cdc.kinds import rules_for
from stack.mysql import MySqlServer
from stack.process import wait_until
from tests.integration.canal.support import NOBODY, WAIT_S, Scene, add_client, pass_over, placed, taken_elsewhere

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")


def at(scene: Scene, **place: Any) -> dict[str, Any]:
    """The stored cursor with another place."""
    cursor = scene.cursor()
    assert cursor is not None
    return placed(cursor, **place)


@pytest.mark.parametrize("mode", ["file", "zookeeper"], indirect=True)
def test_it_is_diagnosed_and_forecast(scene: Scene) -> None:
    assert scene.diagnosis().code == "HEALTHY", scene.diagnosis()
    forecast = forecast_pipeline(scene.run)
    assert (forecast.at_risk, forecast.forecast.earliest_s is None or forecast.forecast.earliest_s > 0) == (False, True)
    assert forecast.position == f"mysql-bin.{scene.end()[0].split('.')[1]}:{at(scene)['postion']['position']}"
    scene.connector.stop(scene.name)
    assert scene.diagnosis().code == "CONNECTOR_STOPPED"
    assert not scene.canal.alive


def test_the_position_moves_to_the_end_and_canal_reads_on_exactly_there(scene: Scene) -> None:
    cursor = at(scene)
    assert ("@type" in cursor) == bool(scene.zookeeper)
    if scene.zookeeper:
        assert cursor["@type"] == TYPE
        scene.connector.reach()
    scene.connector.stop(scene.name)
    before = scene.bytes()
    scene.insert(2)
    scene.insert(3)
    file, position = scene.end()
    scene.insert(4)
    scene.insert(5)
    value = at(scene, journalName=file, position=position)
    told = move(scene.run, value, who="a person", shown=cursor)
    assert told["after"] == stored(scene.run)["offset"] == value
    assert told["moves"].startswith("skips what lies between")
    assert not scene.canal.alive
    scene.connector.resume(scene.name)
    scene.connector.wait_running(scene.name)
    scene.wait_sent(5)
    assert scene.ids() == [1, 4, 5]

    # and back: rows 2 to 5 once more
    scene.connector.stop(scene.name)
    move(scene.run, last_before(scene.run), who="a person", shown=scene.cursor())
    assert scene.bytes() == before
    scene.connector.resume(scene.name)
    scene.connector.wait_running(scene.name)
    wait_until(
        lambda: scene.ids() == [1, 4, 5, 2, 3, 4, 5] or None, timeout=WAIT_S, what="rows 2 to 5 to be sent again"
    )


@pytest.mark.slow
def test_a_position_that_canal_could_not_read_from_is_refused(scene: Scene) -> None:
    scene.connector.stop(scene.name)
    before = scene.bytes()
    elsewhere = taken_elsewhere(at(scene))
    for value, fault in (
        (at(scene, journalName="mysql-bin.999999"), "POSITION_AHEAD"),
        (at(scene, position=5), "POSITION_MID_EVENT"),
        (at(scene, included=True), "delivers nothing"),
        (elsewhere, "it would ignore the position"),
    ):
        with pytest.raises(OffsetRejectedError, match=fault):
            move(scene.run, value, who="a person", shown=scene.cursor())
    assert scene.bytes() == before


def test_a_running_server_is_not_written_under_and_a_failed_write_is_undone_to_the_byte(scene: Scene) -> None:
    store = scene.connector.offset_store(scene.name, {"server": scene.name})
    before, value = scene.bytes(), at(scene, position=4)
    with pytest.raises(ConnectorError, match="would write over the cursor"):
        store.write(value)
    assert scene.bytes() == before
    scene.connector.stop(scene.name)
    before = scene.bytes()
    reading = store.read

    class Forgets:
        """A store that does not show what was written."""

        write = staticmethod(store.write)

        @staticmethod
        def read() -> dict[str, Any]:
            return {**reading(), "x": 1}

    with pytest.raises(OffsetRejectedError, match="the old offset was restored"):
        replace_offset(Forgets(), scene.connector.codec, at(scene), value, where="here")
    assert scene.bytes() == before


def test_a_purged_log_is_named_and_so_is_what_canal_says_of_it(scene: Scene) -> None:
    scene.connector.stop(scene.name)
    scene.insert(2)
    scene.purge()
    assert scene.diagnosis().code == "BINLOG_PURGED"
    scene.connector.resume(scene.name)

    def failed() -> str | None:
        return next(iter(scene.connector.state(scene.name).failures), None)

    trace = wait_until(failed, timeout=WAIT_S, what="Canal to fail")
    assert "errno = 1236" in trace
    assert "Could not find first log file name in binary log index file" in trace
    assert scene.mysql.debezium.password not in trace
    diagnosis = scene.diagnosis()
    assert diagnosis.code == "BINLOG_PURGED", diagnosis
    with pytest.raises(ConnectorError, match="1236"):
        scene.connector.wait_running(scene.name, timeout=30)
    # at the log's begin it goes on
    scene.connector.stop(scene.name)
    file = scene.sql("SHOW BINARY LOGS")[0][0]
    move(scene.run, at(scene, journalName=file, position=4), who="a person", shown=scene.cursor())
    scene.connector.resume(scene.name)
    scene.connector.wait_running(scene.name)
    scene.insert(3)
    scene.wait_sent(3)
    assert scene.ids() == [1, 3]
    assert scene.diagnosis().code == "HEALTHY"


def test_a_deleted_cursor_says_where_canal_would_begin(scene: Scene) -> None:
    scene.connector.stop(scene.name)
    store = scene.connector.offset_store(scene.name, {"server": scene.name})
    store.write(None)
    diagnosis = scene.diagnosis()
    assert diagnosis.code == "NEW_PIPELINE"
    assert "is sent again" in diagnosis.evidence["without a cursor Canal begins at"]
    scene.connector.resume(scene.name)
    scene.connector.wait_running(scene.name)
    wait_until(lambda: scene.ids() == [1, 1] or None, timeout=WAIT_S, what="row 1 to be sent again")


@pytest.mark.slow
def test_a_cursor_taken_elsewhere_is_named(scene: Scene) -> None:
    scene.connector.stop(scene.name)
    scene.connector.offset_store(scene.name, {"server": scene.name}).write(taken_elsewhere(at(scene)))
    diagnosis = scene.diagnosis()
    assert diagnosis.code == "SOURCE_CHANGED", diagnosis
    assert f"{NOBODY}:3306" in diagnosis.evidence["cursor taken at"]


@pytest.mark.slow
def test_another_servers_id_is_a_warning_and_says_more_once_the_position_is_gone(scene: Scene) -> None:
    scene.connector.stop(scene.name)
    # Canal writes the server's own id with the next commit that it reads, so there is none after this place
    file, position = scene.end()
    value = at(scene, journalName=file, position=position, serverId=999)
    scene.connector.offset_store(scene.name, {"server": scene.name}).write(value)
    scene.connector.resume(scene.name)
    scene.connector.wait_running(scene.name)
    diagnosis = scene.diagnosis()
    assert diagnosis.code == "CONNECTOR_MISCONFIGURED", diagnosis
    assert diagnosis.evidence["serverId in the cursor"].startswith("999: if its position is gone")
    # with the next commit Canal itself writes the right one
    scene.insert(2)
    scene.wait_sent(2)
    assert at(scene)["postion"]["serverId"] == 101
    assert scene.diagnosis().code == "HEALTHY"

    scene.connector.stop(scene.name)
    scene.connector.offset_store(scene.name, {"server": scene.name}).write(at(scene, serverId=999))
    scene.purge()
    lost = scene.diagnosis()
    assert lost.code == "BINLOG_PURGED"
    assert "less 60 s" in lost.evidence["serverId in the cursor"]


class TestAutoReset:
    """Canal set to jump."""

    @pytest.fixture
    def more(self) -> dict[str, str]:
        return {"canal.auto.reset.latest.pos.mode": "true"}

    @pytest.mark.parametrize("mode", ["file"])
    def test_it_is_a_problem_of_its_own_before_anything_is_lost(self, scene: Scene) -> None:
        diagnosis = scene.diagnosis()
        assert diagnosis.code == "CONNECTOR_MISCONFIGURED", diagnosis
        assert "log's end" in diagnosis.evidence["canal.auto.reset.latest.pos.mode"]
        assert diagnosis.strategies == ()


@pytest.mark.slow
class TestNotRead:
    """A filter that passes over the table."""

    @pytest.fixture
    def more(self) -> dict[str, str]:
        return {"canal.instance.filter.black.regex": r".*\.u"}

    @pytest.mark.parametrize("mode", ["file"])
    def test_a_table_that_canal_passes_over_is_named(self, scene: Scene) -> None:
        assert scene.diagnosis().code == "HEALTHY"
        pass_over(scene.canal, r".*\.t")
        diagnosis = scene.diagnosis()
        assert diagnosis.code == "CONNECTOR_MISCONFIGURED"
        assert f"{scene.name}.t" in diagnosis.evidence


@pytest.mark.slow
class TestFileMode:
    """Of meta.dat alone."""

    @pytest.mark.parametrize("mode", ["file"])
    def test_the_smallest_cursor_of_all_clients_wins_so_a_move_sets_them_all(self, scene: Scene) -> None:
        cursor = at(scene)
        scene.insert(2)
        scene.wait_sent(2)
        scene.connector.stop(scene.name)
        add_client(scene.canal, cursor)
        before = scene.bytes()
        diagnosis = scene.diagnosis()
        assert diagnosis.code == "OFFSET_AMBIGUOUS", diagnosis
        assert diagnosis.evidence["client 1002 is at"].startswith(scene.end()[0])
        # Canal itself: it goes back to the stale client's place
        scene.connector.resume(scene.name)
        scene.connector.wait_running(scene.name)
        wait_until(lambda: scene.ids().count(2) > 1 or None, timeout=WAIT_S, what="row 2 to be sent again")
        scene.connector.stop(scene.name)

        scene.insert(3)
        file, position = scene.end()
        scene.insert(4)
        move(scene.run, at(scene, journalName=file, position=position), who="a person", shown=scene.cursor())
        moved = json.loads(scene.canal.meta.read_bytes())
        assert [one["cursor"]["postion"]["position"] for one in moved["clientDatas"]] == [position, position]
        assert before != scene.bytes()
        scene.connector.resume(scene.name)
        scene.connector.wait_running(scene.name)
        wait_until(lambda: 4 in scene.ids() or None, timeout=WAIT_S, what="row 4 to be sent")
        assert 3 not in scene.ids()


class TestZooKeeperMode:
    """Of ZooKeeper alone."""

    @pytest.mark.parametrize("mode", ["zookeeper"])
    def test_a_stop_waits_for_the_other_server_of_a_cluster(self, scene: Scene) -> None:
        """The node is what Canal's own launcher leaves there, which is in no Maven repository: written here by hand."""
        from kazoo.client import KazooClient

        other = KazooClient(hosts=scene.zookeeper)
        other.start()
        try:
            node = f"/otter/canal/destinations/{scene.name}/running"
            other.create(node, b'{"active":true,"address":"192.0.2.7:11111"}', ephemeral=True)
            with pytest.raises(DeadlineError, match=r"192\.0\.2\.7:11111"):
                scene.connector.stop(scene.name, timeout=3)
            assert scene.connector.state(scene.name).state == "RUNNING"
            with pytest.raises(ConnectorError, match="would write over"):
                scene.connector.offset_store(scene.name, {}).write(scene.cursor())
        finally:
            other.stop()
            other.close()
        scene.connector.stop(scene.name, timeout=10)

    @pytest.mark.slow
    @pytest.mark.parametrize("mode", ["zookeeper"])
    def test_a_cursor_without_its_type_is_a_fault(self, scene: Scene) -> None:
        scene.connector.stop(scene.name)
        untyped = {key: value for key, value in at(scene).items() if key != "@type"}
        with pytest.raises(OffsetRejectedError, match="reads no cursor without it"):
            move(scene.run, untyped, who="a person", shown=scene.cursor())


class TestByGtid:
    """With canal.instance.gtidon=true the set decides, and file and position do not count."""

    @pytest.fixture
    def more(self, mysql: MySqlServer) -> dict[str, str]:
        executed = str(mysql.execute("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")
        return {"canal.instance.gtidon": "true", "canal.instance.master.gtid": executed}

    @pytest.mark.parametrize("mode", ["file"])
    def test_the_position_moves_by_its_set(self, scene: Scene) -> None:
        diagnosis = scene.diagnosis()
        assert diagnosis.code == "HEALTHY", diagnosis
        assert gtid(scene) in diagnosis.evidence["stored offset"]
        scene.connector.stop(scene.name)
        scene.insert(2)
        scene.insert(3)
        file, position = scene.end()
        executed = str(scene.sql("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")
        scene.insert(4)
        unknown = at(scene, gtid=f"{executed},3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3")
        with pytest.raises(OffsetRejectedError, match="GTID_NOT_CONTAINED"):
            move(scene.run, unknown, who="a person", shown=scene.cursor())
        value = at(scene, journalName=file, position=position, gtid=executed)
        told = move(scene.run, value, who="a person", shown=scene.cursor())
        assert told["moves"].startswith("skips ")
        scene.connector.resume(scene.name)
        scene.connector.wait_running(scene.name)
        wait_until(lambda: 4 in scene.ids() or None, timeout=WAIT_S, what="row 4 to be sent")
        assert scene.ids() == [1, 4]

        scene.connector.stop(scene.name)
        scene.insert(5)
        scene.purge()
        assert scene.diagnosis().code == "GTID_PURGED"
        scene.connector.resume(scene.name)
        trace = wait_until(
            lambda: next(iter(scene.connector.state(scene.name).failures), None), timeout=WAIT_S, what="Canal to fail"
        )
        assert "errno = 1236" in trace
        named = match(rules_for(scene.run.pipeline).texts, trace)
        assert named is not None
        assert named.code == "GTID_PURGED", trace


def gtid(scene: Scene) -> str:
    """The set in the stored cursor."""
    return str(at(scene)["postion"]["gtid"])


@pytest.mark.slow
class TestOther1236:
    """The same error number, and something else that is meant by it."""

    @pytest.mark.parametrize("mode", ["file"])
    @pytest.mark.parametrize(
        ("change", "code"),
        [({"position": 900_000_000}, "POSITION_PAST_END"), ({"position": 130}, "POSITION_MID_EVENT")],
        ids=["past the end", "inside an event"],
    )
    def test_it_is_told_by_its_message(self, scene: Scene, change: dict[str, int], code: str) -> None:
        scene.connector.stop(scene.name)
        scene.connector.offset_store(scene.name, {"server": scene.name}).write(at(scene, **change))
        scene.sql("FLUSH BINARY LOGS")  # of a file that ended, nothing more is to come
        assert scene.diagnosis().code == code
        scene.connector.resume(scene.name)
        trace = wait_until(
            lambda: next(iter(scene.connector.state(scene.name).failures), None), timeout=WAIT_S, what="Canal to fail"
        )
        assert "errno = 1236" in trace
        named = match(rules_for(scene.run.pipeline).texts, trace)
        assert named is not None
        assert named.code == code, trace
        assert scene.diagnosis().code == code


@pytest.mark.slow
@pytest.mark.minutes
class TestAutoResetJumps:
    """What is only said beforehand: once Canal has jumped over what is missing, nothing shows it."""

    @pytest.fixture
    def more(self) -> dict[str, str]:
        return {"canal.auto.reset.latest.pos.mode": "true"}

    @staticmethod
    def row_read_after_the_jump(scene: Scene) -> int | None:
        """Write one more row; the first one that Canal sent of those written since it failed.

        It jumps to the log's end at its third refusal. Its log says "find start position successfully" before each of
        them, so nothing but a row that comes shows that it has jumped, and a row written before that never comes.
        """
        scene.insert(next(iter(scene.sql(f"SELECT max(id) + 1 FROM {scene.name}.t")))[0])
        return next(iter(scene.ids()[1:]), None)

    @pytest.mark.parametrize("mode", ["file"])
    def test_it_is_named_before_canal_jumps_and_nothing_fails_after(self, scene: Scene) -> None:
        scene.connector.stop(scene.name)
        scene.insert(2)
        scene.purge()
        purged = scene.diagnosis()
        assert (purged.code, "CONNECTOR_MISCONFIGURED" in {one.code for one in purged.others}) == (
            "BINLOG_PURGED",
            True,
        )
        scene.connector.resume(scene.name)
        wait_until(lambda: scene.connector.state(scene.name).failures or None, timeout=WAIT_S, what="Canal to fail")
        first_read = wait_until(lambda: self.row_read_after_the_jump(scene), timeout=3 * WAIT_S, what="Canal to jump")
        assert first_read > 2, "the purged row was sent after all"
        assert scene.connector.state(scene.name).failures == ()
        assert scene.diagnosis().code == "CONNECTOR_MISCONFIGURED"
