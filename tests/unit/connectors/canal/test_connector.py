"""A Canal server by its operator's commands, its files and its log. The commands are made here; a real server: tests/integration/canal."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from airflow_cdc.connectors.canal import connector as canal
from airflow_cdc.connectors.canal.connector import CanalConnector
from airflow_cdc.connectors.canal.cursor import TYPE, CursorCodec
from airflow_cdc.connectors.canal.endpoint import CanalEndpoint
from airflow_cdc.connectors.commands import Commands
from airflow_cdc.core.errors import ConnectorError, DeadlineError
from tests.unit.clocks import Clock, waiting
from tests.unit.connectors.canal.test_cursor import at, real
from tests.unit.connectors.canal.test_log import BEGUN, FAILED, FOUND
from tests.unit.connectors.canal.test_stores import META

SERVER = "canal.serverMode=kafka\ncanal.mq.topic=shop\ncanal.instance.detecting.enable=false\n"
INSTANCE = "canal.instance.master.address=localhost:34353\ncanal.instance.dbPassword=hush-1\n"


@dataclass
class Made:
    """A server's folder and what its commands do; `holder`: the server that has the destination, by ZooKeeper.

    `lingers`: it still runs when the command to stop it has ended.
    """

    folder: Path
    runs: bool = False
    holder: str = ""
    lingers: bool = False
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "shop").mkdir()
        (self.folder / "canal.properties").write_text(SERVER)
        self.write(INSTANCE)
        self.meta.write_text(META)

    @property
    def meta(self) -> Path:
        return self.folder / "shop" / "meta.dat"

    def write(self, settings: str) -> None:
        (self.folder / "shop" / "instance.properties").write_text(settings)

    def log(self, *lines: str) -> None:
        (self.folder / "log").write_text("\n".join(lines))

    # ---- what Commands does

    def running(self) -> bool:
        return self.runs

    def stop(self, _timeout: float) -> None:
        self.told.append("stop")
        self.runs = self.lingers

    def start(self, _timeout: float) -> None:
        self.told.append("start")
        self.runs = True

    def server(self, **more: Any) -> CanalConnector:
        endpoint = CanalEndpoint(
            "here", destination="shop", conf=str(self.folder), log=str(self.folder / "log"), timeout=1.0
        )
        made = CanalConnector(replace(endpoint, **more), CursorCodec())
        made._commands = cast("Commands", self)
        return made


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return waiting(monkeypatch, canal)


@pytest.fixture
def cluster(made: Made, monkeypatch: pytest.MonkeyPatch) -> CanalConnector:
    """One of several servers that ask ZooKeeper who runs the destination."""

    class ZooKeeper:
        def __init__(self, _endpoint: CanalEndpoint, destination: str) -> None:
            assert destination == "shop"

        def holder(self) -> str:
            return made.holder

    monkeypatch.setattr(canal, "ZooKeeperCursors", ZooKeeper)
    return made.server(cursor="zookeeper")


@pytest.mark.parametrize(
    ("runs", "lines", "state"),
    [
        (False, [BEGUN, FOUND, *FAILED], ("STOPPED",)),
        (True, [BEGUN, FOUND], ("RUNNING", "RUNNING")),
        (True, [BEGUN, FOUND, *FAILED], ("RUNNING", "FAILED")),
        (True, [], ("RUNNING", "RUNNING")),
    ],
    ids=["stopped", "reads", "fails", "a new log"],
)
def test_a_server_that_stays_up_but_cannot_read_has_failed(
    made: Made, runs: bool, lines: list[str], state: tuple[str, ...]
) -> None:
    made.runs = runs
    made.log(*lines)
    now = made.server().state("shop")
    assert (now.state, *(task.state for task in now.tasks)) == state
    assert all(bool(task.trace) is (task.state == "FAILED") for task in now.tasks)
    assert [task.id for task in now.tasks] == list(range(len(now.tasks)))  # a connector's tasks are numbered from 0


def test_it_is_stopped_and_started_by_its_commands_and_only_while_that_is_needed(made: Made, clock: Clock) -> None:
    made.runs = True
    server = made.server()
    server.restart("shop")
    assert made.told == ["stop", "start"]
    made.runs, made.told = False, []
    server.stop("shop")
    assert made.told == []


@pytest.mark.parametrize("ends", [True, False])
def test_a_server_that_is_still_ending_is_waited_for(made: Made, clock: Clock, ends: bool) -> None:
    """Its command may return before, and it writes its cursor when it ends."""
    made.runs = made.lingers = True
    clock.on_sleep = lambda: setattr(made, "runs", not ends)
    if ends:
        made.server().stop("shop", timeout=5)
        assert not made.runs
    else:
        with pytest.raises(DeadlineError, match="the server runs"):
            made.server().stop("shop", timeout=5)


def test_a_destination_that_another_server_of_the_cluster_took_over_is_not_stopped(
    made: Made, cluster: CanalConnector, clock: Clock
) -> None:
    """It goes on to send, and to write its cursor."""
    made.runs, made.holder = True, "other:11111"
    with pytest.raises(DeadlineError, match="the server other:11111 of the cluster has the destination"):
        cluster.stop("shop", timeout=5)
    assert cluster.state("shop").state == "RUNNING"
    with pytest.raises(ConnectorError, match="would write over the cursor"):
        cluster.offset_store("shop", {}).write(real())
    made.holder = ""
    cluster.stop("shop", timeout=5)
    assert cluster.state("shop").state == "STOPPED"


@pytest.mark.parametrize(("runs", "refused"), [(True, True), (False, False)])
def test_a_cursor_is_written_only_while_the_server_stands(made: Made, runs: bool, refused: bool) -> None:
    made.runs = runs
    store = made.server().offset_store("shop", {})
    if refused:
        with pytest.raises(ConnectorError, match="would write over the cursor when it ends"):
            store.write(at(position=900))
        assert made.meta.read_text() == META
    else:
        store.write(at(position=900))
        assert made.server().committed_offset("shop", "shop") == at(position=900)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("runs", "lines", "log", "outcome"),
    [
        (False, [BEGUN, FOUND], True, "it does not run"),
        (True, [BEGUN], True, "has not found its position yet"),
        (True, [BEGUN, FOUND], True, ""),
        (True, [BEGUN, FOUND, *FAILED], True, "destination shop does not read"),
        (True, [], False, ""),
    ],
    ids=["stopped", "looks for it", "reads", "fails", "its log is not known"],
)
def test_it_runs_once_its_log_says_that_it_found_its_position(
    made: Made, runs: bool, lines: list[str], log: bool, outcome: str
) -> None:
    made.runs = runs
    made.log(*lines)
    server = made.server() if log else made.server(log="")
    if outcome:
        with pytest.raises((ConnectorError, DeadlineError), match=outcome) as ended:
            server.wait_running("shop", timeout=3)
        assert isinstance(ended.value, DeadlineError) is ("does not read" not in outcome)
    else:
        server.wait_running("shop", timeout=3)


def test_each_client_has_a_cursor_and_only_ours_is_the_pipelines(made: Made) -> None:
    ours, other = made.server().entries("shop")
    assert (ours.key, ours.value) == ({"server": "shop"}, real())
    assert (other.key, other.value) == ({"server": "shop", "client": 1002}, at(position=4))
    facts = made.server().facts("shop")
    assert (facts.offset and facts.offset.raw, facts.key, facts.offsets_count) == (real(), {"server": "shop"}, 2)
    ((named),) = facts.other_keys
    assert (named["client"], named["cursor"]) == (1002, "mysql-bin.000001:4")
    made.meta.unlink()
    gone = made.server().facts("shop")
    assert (gone.offset, gone.key, gone.offsets_count, gone.stranger) == (None, None, 0, "")


@pytest.mark.parametrize(
    ("settings", "stranger"),
    [
        (INSTANCE, ""),
        ("canal.instance.master.address=localhost:3306\n", "localhost:34353"),
        ("canal.instance.master.address=db:3306\ncanal.instance.standby.address=localhost:34353\n", ""),
        ("", ""),
    ],
    ids=["the same", "another port", "the standby", "nobody says"],
)
def test_a_cursor_of_another_server_is_told_from_one_of_this_or_its_standby(
    made: Made, settings: str, stranger: str
) -> None:
    made.write(settings)
    assert made.server().facts("shop").stranger == stranger


def test_settings_are_shown_without_secrets_and_say_what_moves_the_cursor(made: Made) -> None:
    facts = made.server(time_zone="UTC").facts("shop")
    assert (facts.address, facts.heartbeats) == ("localhost:34353", False)
    assert "hush-1" not in str(facts.config)
    made.write(f"{INSTANCE}canal.instance.global.spring.xml=classpath:spring/memory-instance.xml\n")
    unseen = made.server().facts("shop")
    assert "in memory alone" in unseen.offset_unseen
    assert (unseen.offset, unseen.offsets_count) == (None, 0)


def test_a_cursor_for_zookeeper_carries_its_type_and_one_for_a_file_does_not(
    made: Made, cluster: CanalConnector
) -> None:
    """Canal reads no cursor from ZooKeeper without it, and says nothing."""
    assert cluster.codec.faults({"@type": TYPE, **real()}) == ()
    assert "@type" in str(cluster.codec.faults(real()))
    assert made.server().codec.faults(real()) == ()
    assert "@type" in str(made.server().codec.faults({"@type": TYPE, **real()}))
