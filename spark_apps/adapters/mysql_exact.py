"""All rows of a MySQL table in one read view whose position is known: how Spark's connection opens it, once only."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.poll import poll_until
from airflow_cdc.sources.mysql.capabilities import Capability
from airflow_cdc.spark_apps.adapters.mysql_view import locked
from airflow_cdc.spark_apps.driver.lost import VIEW_CLOSED

if TYPE_CHECKING:
    from airflow_cdc.core.position import Watermark
    from airflow_cdc.core.table import Table
    from airflow_cdc.sources.mysql.capabilities import ServerVersion
    from airflow_cdc.sources.mysql.client import BinlogSource
    from airflow_cdc.sources.mysql.facts import BinlogFacts
    from airflow_cdc.sources.mysql.session import Session

log = logging.getLogger("airflow_cdc.snapshot")

OPEN_SECONDS: Final = 60.0
# How often the connection that keeps the door shut shows that it is alive.
LOOK_SECONDS: Final = 20.0


def open_once(token: str, version: ServerVersion) -> str:
    """The statements by which a connection opens its view and takes the named lock `token`, unless the door is shut.

    Spark runs a failed task again, on a new connection, whose view would be a later one (INV 19). The door is looked at
    after the view was opened: found open, the table was still locked then, so the view is as good as the first.
    """
    free = f"IS_FREE_LOCK('{door_of(token)}') = 1"
    if version.can(Capability.ERROR_TEXT_IN_SET):
        check = f"IF({free}, 1, UUID_TO_BIN(CONCAT('{VIEW_CLOSED}, ', @@server_uuid)))"
    else:
        check = f"(SELECT 1 UNION ALL SELECT 2 FROM DUAL WHERE NOT ({free}))"
    return f"START TRANSACTION WITH CONSISTENT SNAPSHOT; SET @cdc_door := {check}; SELECT GET_LOCK('{token}', 0)"


def door_of(token: str) -> str:
    """The named lock that, while it is held, lets no further connection read."""
    return f"{token}_door"


def exact_view(source: BinlogSource[BinlogFacts], table: Table, token: str, read: Callable[[], None]) -> Watermark:
    """Run `read` in a thread; its connection opens its view, and takes the lock `token`, while `table` stands still.

    Returns the position of that view once `read` has finished. Raises SourceError if the table lock cannot be taken, or
    if another view may have been opened afterwards, and whatever `read` raises; it may have read rows by then, which
    must not count.
    """
    with source.session() as door, ThreadPoolExecutor(1) as pool:
        with locked(source, table) as session:
            position, began = source.position(), time.monotonic()
            running = pool.submit(read)
            poll_until(
                lambda: _view_open(session, token, running),
                timeout=OPEN_SECONDS,
                interval=0.01,
                what=f"Spark to open its read view of {table.full_name}",
            )
            _shut(door, token)
        log.info("%s: writes waited for %.2f s", table.full_name, time.monotonic() - began)
        while not wait([running], timeout=LOOK_SECONDS).done:
            _check_shut(door, token, table)
        running.result()
        _check_shut(door, token, table)
    return position


def _shut(session: Session, token: str) -> None:
    answer = session.row("SELECT GET_LOCK(%s, 0) AS mine", (door_of(token),), doing="keep out a later read view")
    if answer["mine"] != 1:
        raise SourceError("the lock that keeps out a later read view could not be taken", where=session.where)


def _check_shut(session: Session, token: str, table: Table) -> None:
    query = "SELECT IS_USED_LOCK(%s) = CONNECTION_ID() AS mine"
    if session.row(query, (door_of(token),), doing="keep out a later read view")["mine"] != 1:
        raise SourceError(
            f"{table.full_name} may have been read in more than one view", where=session.where, todo="Try again."
        )


def _view_open(session: Session, token: str, running: Future[None]) -> bool | None:
    if running.done():
        running.result()  # raises what went wrong; a read that has already finished ran under the lock
        return True
    holder = session.row("SELECT IS_USED_LOCK(%s) AS id", (token,), doing="look for the read view")["id"]
    return None if holder is None else True
