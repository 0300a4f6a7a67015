"""The matrix of moments on MySQL: an ALTER arrives, or a step fails, at each moment of each step.

Whatever the moment, the step that it struck ends soon and says what to do, nothing of it goes on, the step that is named can
be run at once, and every row is equal in the end. What makes a step fail is put right when that step has ended, not before.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import pymysql
from pymysql.constants import ER

from tests.faults.cell import Cell, Fault, cells
from tests.faults.matrix import MOMENTS
from tests.faults.mysql import write_secret
from tests.faults.world import PIPELINE, worker_of

if TYPE_CHECKING:
    from stack.installation import User
    from tests.faults.mysql import MySqlWorld
    from tests.faults.runner import Recovery

ALTER: Final = "an ALTER"
# The error of the step that was struck comes within these. A service that refuses is asked for a minute, and on a busy
# machine a step takes another to start and to end; one that waits for what does not come goes on for ten at least.
CLEAR_END_S: Final = 180.0
_names = itertools.count(1)


def mysql_of(recovery: Recovery) -> MySqlWorld:
    return cast("MySqlWorld", recovery.world)


def alter(recovery: Recovery) -> None:
    """Somebody adds a column and writes into it, however long the recovery's hold makes them wait."""
    world, column = mysql_of(recovery), f"at_{next(_names)}"
    statements = (
        f"ALTER TABLE customers ADD COLUMN {column} INT NULL DEFAULT 5",
        f"UPDATE customers SET {column} = 6 ORDER BY code LIMIT 20",
    )

    def carried_out() -> None:
        for statement in statements:
            while not _executed(world, statement):
                pass  # the writer's transactions and it waited for each other

    recovery.beside(carried_out)


def _executed(world: MySqlWorld, statement: str) -> bool:
    """Whether the statement was carried out; False if the server ended it for a deadlock."""
    try:
        world.execute(statement)
    except pymysql.err.OperationalError as error:
        if error.args[0] != ER.LOCK_DEADLOCK:
            raise
        return False
    return True


def until_its_end(recovery: Recovery, begin: Callable[[], Any], undo: Callable[[], Any]) -> None:
    """What `begin` does lasts until the struck step has ended, which is soon."""
    begin()
    begun = time.monotonic()

    def put_right() -> None:
        recovery.step_ended()
        if (seconds := time.monotonic() - begun) > CLEAR_END_S:
            recovery.said.append(f"WRONG: the struck step went on for {seconds:.0f} s")
        undo()

    recovery.mend(put_right)


def locked(user: Callable[[MySqlWorld], User]) -> Fault:
    """The source refuses this user, and has ended its connections. Not under the hold, which such a change waits for."""

    def lock(recovery: Recovery) -> None:
        world = mysql_of(recovery)
        name = user(world).user
        until_its_end(recovery, lambda: world.lock_out(name), lambda: world.let_in(name))

    return lock


def wrong_password(recovery: Recovery) -> None:
    """The connector's password in its file is not its user's any more: its task ends when it starts."""
    folder, login = recovery.world.folder, mysql_of(recovery).demo.mysql.debezium
    until_its_end(recovery, lambda: write_secret(folder, "no longer"), lambda: write_secret(folder, login.password))


def no_connect(recovery: Recovery) -> None:
    """Connect refuses every connection."""
    until_its_end(recovery, recovery.world.connect.refuse, recovery.world.connect.accept)  # type: ignore[attr-defined]


def no_source(recovery: Recovery) -> None:
    """The source refuses every connection of the product's."""
    until_its_end(recovery, recovery.world.source.refuse, recovery.world.source.accept)


def deleted(recovery: Recovery) -> None:
    """Somebody deletes the connector, and creates it again with the same configuration."""
    worker = worker_of(recovery.world.stack)
    config = worker.call("GET", f"/connectors/{PIPELINE}/config")
    until_its_end(
        recovery,
        lambda: worker.call("DELETE", f"/connectors/{PIPELINE}"),
        # not until it runs: where its offset is, the log is purged
        lambda: worker.call("PUT", f"/connectors/{PIPELINE}/config", config),
    )


FAULTS: dict[str, Fault] = {
    ALTER: alter,
    "its user locked": locked(lambda world: world.demo.mysql.cdc),
    "the connector's password wrong": wrong_password,
    "Connect refuses": no_connect,
    "MySQL refuses": no_source,
    "the connector deleted": deleted,
}


def _at(step: str, moment: str, *faults: str) -> list[Cell]:
    return cells(MOMENTS, FAULTS, step, moment, *faults)


ALTERS: tuple[Cell, ...] = tuple(cell for step, moment in MOMENTS for cell in _at(step, moment, ALTER))
FAILURES: tuple[Cell, ...] = (
    *_at("diagnose", "reading the source", "its user locked", "MySQL refuses"),
    *_at("stop_connector", "stop asked, not answered", "Connect refuses", "the connector deleted"),
    *_at("fence_and_watermark", "waiting until W is visible", "MySQL refuses"),
    *_at("fence_and_watermark", "W written", "MySQL refuses"),
    *_at("recover", "begun", "MySQL refuses"),
    *_at("recover", "between two chunks' commits", "MySQL refuses"),
    *_at("reset_offset", "between write and read-back", "Connect refuses"),
    *_at("resume_connector", "resume asked, not answered", "Connect refuses", "the connector's password wrong"),
    *_at("verify", "between two tables' catch-up commits", "its user locked", "MySQL refuses"),
    *_at("close", "settings going back", "Connect refuses"),
)
CELLS: tuple[Cell, ...] = (*ALTERS, *FAILURES)
