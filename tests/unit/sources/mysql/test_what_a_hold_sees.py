"""A hold of a MySQL server's log, from the server's answers: what it marks, what makes it let go, and what it says of itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from airflow_cdc.core.errors import MissingPrivilegeError, SourceError
from airflow_cdc.core.hold import HoldLimits, HoldState, HoldStatus
from airflow_cdc.sources.errors import SourceLockTimeoutError, SourceUnreachableError
from airflow_cdc.sources.mysql import hold as holds
from airflow_cdc.sources.mysql.client import MySqlEndpoint
from airflow_cdc.sources.mysql.hold import Hold, hold_name
from tests.unit.sources.answering import AnsweringSession, Rows

ENDPOINT = MySqlEndpoint("db", 3306, "cdc", "pw")


class Server:
    """`waits`: (state, user, statement, seconds) of other sessions; `files`: sizes of the log's; `fails`: statement → its error."""

    def __init__(self) -> None:
        self.waits: list[tuple[str, str, str, int]] = []
        self.files = [1_000]
        self.fails: dict[str, SourceError] = {}
        self.mine, self.owner = 1, 77
        self.arguments: dict[str, tuple[Any, ...]] = {}

    def __call__(self, sql: str, args: Sequence[Any]) -> Rows:
        self.arguments[sql] = tuple(args)
        for words, error in self.fails.items():
            if words in sql:
                raise error
        if "GET_LOCK" in sql:
            return [{"mine": self.mine}]
        if "IS_USED_LOCK" in sql:
            return [{"owner": self.owner}]
        if sql == "SHOW PROCESSLIST":
            keys = ("State", "User", "Info", "Time")
            return [{"Id": 5, "Host": "app", **dict(zip(keys, one, strict=True))} for one in self.waits]
        if sql == "SHOW BINARY LOGS":
            return [{"Log_name": f"bin.{n:06}", "File_size": size} for n, size in enumerate(self.files, 1)]
        return []


class Opened(AnsweringSession):
    """A session of the hold. `closed`: whether it was."""

    id = 42
    closed = False

    def close(self) -> None:
        self.closed = True


class Scene:
    """A server, the sessions that were opened at it, and the time since the start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.version = Server(), "8.0.36"
        self.opened: list[Opened] = []
        self.now = 100.0
        monkeypatch.setattr(holds, "open_connection", lambda *_, **__: None)
        monkeypatch.setattr(holds, "Session", self._open)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def _open(self, *_: object) -> Opened:
        self.opened.append(Opened(self.version, self.server))
        return self.opened[-1]

    def hold(self, **limits: Any) -> Hold:
        return Hold(ENDPOINT, "shop", HoldLimits(**limits))

    def held(self, **limits: Any) -> Hold:
        made = self.hold(**limits)
        assert made.acquire().held
        return made


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_inv_10_a_hold_marks_itself_and_then_locks(scene: Scene) -> None:
    state = scene.held(lock_wait=7.0, orphan_after=20.0).state
    assert (state.status, state.connection_id) == (HoldStatus.HELD, 42)
    asked = scene.opened[0].asked
    assert asked.index("SELECT GET_LOCK(%s, %s) AS mine") < asked.index("LOCK INSTANCE FOR BACKUP")
    arguments = scene.server.arguments
    # an orphan is ended by the server, and running DDL is waited for as long as the limit says
    assert arguments["SET @@SESSION.wait_timeout = %s, @@SESSION.lock_wait_timeout = %s"] == (20, 7)
    assert arguments["SELECT GET_LOCK(%s, %s) AS mine"] == (hold_name("shop"), 7.0)


def test_inv_10_limits_below_a_second_are_one_for_the_server_where_0_means_another_thing(scene: Scene) -> None:
    scene.held(lock_wait=0.2, orphan_after=0.3)
    assert scene.server.arguments["SET @@SESSION.wait_timeout = %s, @@SESSION.lock_wait_timeout = %s"] == (1, 1)


@pytest.mark.parametrize(
    ("words", "error", "status", "reason"),
    [
        ("LOCK INSTANCE", MissingPrivilegeError("no BACKUP_ADMIN", todo="grant it"), HoldStatus.REFUSED, "no BACKUP_ADMIN"),
        ("INNODB_TRX", MissingPrivilegeError("no PROCESS", todo="grant it"), HoldStatus.REFUSED, "no PROCESS"),
        ("LOCK INSTANCE", SourceLockTimeoutError("late", todo="wait"), HoldStatus.REFUSED, "running DDL kept the lock for 7 s"),
        ("LOCK INSTANCE", SourceUnreachableError("gone", todo="look"), HoldStatus.REFUSED, "gone"),
    ],
)  # fmt: skip
def test_inv_10_a_hold_that_is_refused_is_a_value_with_its_reason(
    scene: Scene, words: str, error: SourceError, status: HoldStatus, reason: str
) -> None:
    scene.server.fails[words] = error
    state = scene.hold(lock_wait=7.0).acquire()
    assert (state.status, state.held) == (status, False)
    assert reason in state.reason
    assert scene.opened[0].closed


def test_inv_10_a_label_that_another_holds_is_refused_with_its_connection(scene: Scene) -> None:
    scene.server.mine = 0
    state = scene.hold().acquire()
    assert state.status is HoldStatus.REFUSED
    assert "connection 77 already holds 'shop'" in state.reason


def test_inv_10_a_server_without_the_lock_is_said_to_have_none(scene: Scene) -> None:
    scene.version = "5.7.44"
    state = scene.hold().acquire()
    assert state.status is HoldStatus.UNSUPPORTED
    assert "server 5.7.44 has no LOCK INSTANCE FOR BACKUP" in state.reason


@pytest.mark.parametrize(
    ("waits", "ends"),
    [
        ([], ""),
        # a backup: every write would wait behind it
        ([("Waiting for global read lock", "backup", "FLUSH TABLES WITH READ LOCK", 0)], "another session waits for the global read lock (backup: FLUSH TABLES WITH)"),
        # an ALTER that waits for us keeps nobody else from its table
        ([("Waiting for backup lock", "app", "ALTER TABLE t ADD c int", 9)], ""),
        # but a TRUNCATE has its table locked: a reader of it waits
        ([("Waiting for backup lock", "app", "TRUNCATE TABLE t", 9), ("Waiting for table metadata lock", "web", "SELECT * FROM t", 1)], "app: TRUNCATE TABLE t waits for it and keeps others from a table (web: SELECT * FROM)"),
        # one that has just come may go by itself
        ([("Waiting for backup lock", "app", "TRUNCATE TABLE t", 9), ("Waiting for table metadata lock", "web", "SELECT * FROM t", 0)], ""),
        # who waits for a table while nobody waits for us waits for somebody else
        ([("Waiting for table metadata lock", "web", "SELECT * FROM t", 30)], ""),
        ([("Sending data", "web", "SELECT 1", 30)], ""),
    ],
)  # fmt: skip
def test_inv_10_it_lets_go_as_soon_as_others_cannot_go_on(
    scene: Scene, waits: list[tuple[str, str, str, int]], ends: str
) -> None:
    hold = scene.held()
    scene.server.waits = waits
    state = hold.tick()
    assert (state.held, state.reason) == (not ends, ends)
    assert scene.opened[0].closed is bool(ends)


def test_inv_10_a_statement_that_waits_is_shown_by_its_first_words_alone(scene: Scene) -> None:
    hold = scene.held()
    scene.server.waits = [("Waiting for backup lock", "app", "ALTER USER x IDENTIFIED BY 'secret'", 3)]
    waiting = hold.tick().waiting
    assert [(one.user, one.statement) for one in waiting] == [("app", "ALTER USER x")]


def test_inv_10_it_ends_at_its_limit_of_time(scene: Scene) -> None:
    hold = scene.held(max_seconds=60.0)
    scene.now += 60.0
    assert hold.tick().held
    scene.now += 0.5
    state = hold.tick()
    assert (state.held, state.reason, state.held_s) == (False, "the limit of 60 s is reached", 60.5)


def test_inv_10_it_ends_when_the_log_has_grown_too_much_under_it(scene: Scene) -> None:
    scene.server.files = [1_000, 500]  # what was there before does not count
    hold = scene.held(max_bytes=300)
    scene.now += 20.0
    scene.server.files = [1_000, 800]
    assert (hold.tick().held, hold.state.kept_bytes) == (True, 300)
    scene.now += 20.0
    scene.server.files = [1_000, 801]
    state = hold.tick()
    assert (state.held, state.reason) == (False, "the limit of 300 bytes of binlog is reached")


def test_the_log_is_measured_at_once_and_then_four_times_a_minute(scene: Scene) -> None:
    hold = scene.held(max_bytes=10**9)
    asked = scene.opened[0].asked
    before = asked.count("SHOW BINARY LOGS")
    seen = []
    for _ in range(16):
        hold.tick()
        seen.append(asked.count("SHOW BINARY LOGS") - before)
        scene.now += 1.0
    assert seen == [1] * 16
    hold.tick()
    assert asked.count("SHOW BINARY LOGS") - before == 2


def test_without_a_limit_of_bytes_the_log_is_not_measured(scene: Scene) -> None:
    hold = scene.held(max_bytes=None)
    assert hold.tick().kept_bytes is None
    assert "SHOW BINARY LOGS" not in scene.opened[0].asked


def test_inv_10_a_log_that_was_purged_under_it_has_not_shrunk_below_nothing(scene: Scene) -> None:
    hold = scene.held(max_bytes=300)
    scene.server.files = [10]
    assert hold.tick().kept_bytes == 0


def test_inv_10_a_lost_connection_ends_it_for_good(scene: Scene) -> None:
    hold = scene.held()
    scene.server.fails["PROCESSLIST"] = SourceUnreachableError("the connection was lost", todo="look")
    assert hold.tick().status is HoldStatus.LOST
    scene.server.fails.clear()
    assert hold.tick().status is HoldStatus.LOST
    assert hold.release().status is HoldStatus.LOST


def test_it_is_taken_once_and_its_end_keeps_its_reason(scene: Scene) -> None:
    hold = scene.held()
    hold.acquire()
    assert len(scene.opened) == 1
    assert (hold.release("the table is read").status, hold.state.reason) == (HoldStatus.RELEASED, "the table is read")
    assert hold.release("again").reason == "the table is read"


def test_one_that_was_never_taken_is_not_ended(scene: Scene) -> None:
    hold = scene.hold()
    assert hold.tick() == hold.release() == HoldState("shop", HoldStatus.NEW)
    assert scene.opened == []
