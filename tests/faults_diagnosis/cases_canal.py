"""Faults of a Canal server, of its cursor, and of what is behind it. Most of them Canal itself does not report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.faults_diagnosis.canal import NEW, ByPosition, CanalSubject, InZooKeeper, OverRabbitMq
from tests.faults_diagnosis.case import Case
from tests.integration.canal.over_rabbitmq import EXCHANGE
from tests.integration.canal.support import (
    add_client,
    pass_over,
    placed,
    take_start_away,
    taken_elsewhere,
)

Make = Callable[[CanalSubject], None]
STRANGER = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3"  # transactions of a server that ours never heard of


# ---- the server's log, and where the cursor is in it


def purged(subject: CanalSubject) -> None:
    subject.stop()
    subject.write(20)
    subject.purge()


def purged_under_it(subject: CanalSubject) -> None:
    """Canal stays up, sends nothing and tries again for ever."""
    purged(subject)
    subject.resume()
    subject.wait_failed()


def set_ahead(subject: CanalSubject) -> None:
    """Somebody gave the stopped server a set of a source that was ahead."""
    subject.stop()
    uuid, _, numbers = subject.executed().rpartition(":")
    ahead = f"{uuid}:1-{int(numbers.rpartition('-')[2]) + 5}"
    subject.patch(placed(subject.offset(), gtid=ahead))


def set_of_another(subject: CanalSubject) -> None:
    subject.stop()
    subject.patch(placed(subject.offset(), gtid=f"{subject.executed()},{STRANGER}"))


def past_the_end(subject: CanalSubject) -> None:
    subject.stop()
    subject.patch(placed(subject.offset(), position=900_000_000))
    subject.rotate()  # of a file that ended, nothing more is to come


def inside_an_event(subject: CanalSubject) -> None:
    subject.stop()
    subject.patch(placed(subject.offset(), position=130))
    subject.rotate()


# ---- what Canal does in silence


def would_reset_and_purged(subject: CanalSubject) -> None:
    """Canal would go on at the log's end after its third refusal."""
    purged(subject)


def another_id(subject: CanalSubject) -> None:
    """The place is the log's end: with the next commit that it reads, Canal itself writes the right id."""
    subject.stop()
    file, position = subject.end()
    subject.patch(placed(subject.offset(), journalName=file, position=position, serverId=999))
    subject.resume()
    subject.wait_running()


def another_id_and_purged(subject: CanalSubject) -> None:
    """After three refusals Canal would look for the cursor's time less 60 s."""
    subject.stop()
    subject.patch(placed(subject.offset(), serverId=999))
    subject.write(20)
    subject.purge()


def cursor_of_elsewhere(subject: CanalSubject) -> None:
    subject.stop()
    subject.patch(taken_elsewhere(subject.offset()))


def stale_client(subject: CanalSubject) -> None:
    before = subject.offset()
    subject.write(20)
    subject.catch_up()
    subject.stop()
    add_client(subject.canal, before)


def cursor_deleted(subject: CanalSubject) -> None:
    subject.stop()
    subject.patch(None)


def without_a_start(subject: CanalSubject) -> None:
    """This server does not know `show master status`: without its cursor Canal could not begin."""
    take_start_away(subject.canal)


def table_passed_over(subject: CanalSubject) -> None:
    pass_over(subject.canal, rf"{subject.name}\.items")


def by_position(subject: CanalSubject) -> None:
    """Somebody turned GTIDs off: the events no longer say where in the log a change is."""
    path = subject.canal.meta.with_name("instance.properties")
    path.write_text(path.read_text().replace("gtidon=true", "gtidon=false"))


# ---- the queue behind it


def queue_deleted(subject: CanalSubject) -> None:
    """RabbitMQ drops what Canal sends there, and Canal is not told."""
    with _rabbit(subject) as connection:
        connection.channel().queue_delete(f"{subject.name}.stream")


def queue_unbound(subject: CanalSubject) -> None:
    """The stream is there, and nothing leads to it."""
    with _rabbit(subject) as connection:
        connection.channel().queue_unbind(f"{subject.name}.stream", EXCHANGE, subject.name)


def classic_queue(subject: CanalSubject) -> None:
    """The pipeline reads Canal's own queue: what is taken from it is gone."""
    parts = subject.parts()
    subject.canals.declare(subject.name, {**parts, "transport": {**parts["transport"], "queue": subject.name}})


def _rabbit(subject: CanalSubject) -> Any:
    return subject.canals.rabbit.connect()


def _case(
    name: str,
    fault: str,
    expected: str,
    make: Make,
    pipeline: type[CanalSubject] = CanalSubject,
    *,
    server: str = "gtid",
    **more: Any,
) -> Case:
    # a case of this module is only ever given a pipeline with a Canal server
    given: Any = make
    return Case(name, fault, expected, server, given, pipeline=pipeline, **more)


_RESETS = {"canal.auto.reset.latest.pos.mode": "true"}
CASES: tuple[Case, ...] = (
    _case("healthy", "nothing", "HEALTHY", lambda _s: None),
    _case("stopped", "somebody stopped Canal", "CONNECTOR_STOPPED", lambda s: s.stop()),
    _case("resets", "auto.reset.latest.pos.mode=true", "CONNECTOR_MISCONFIGURED", lambda _s: None, config=_RESETS),
    _case(
        "resets_purged",
        "auto.reset.latest.pos.mode=true, and the log purged",
        "CONNECTOR_MISCONFIGURED",
        would_reset_and_purged,
        config=_RESETS,
        asked=False,
    ),
    _case("elsewhere", "the cursor names another address", "SOURCE_CHANGED", cursor_of_elsewhere),
    _case("second_client", "a stale second client", "OFFSET_AMBIGUOUS", stale_client),
    _case("cursor_deleted", "the cursor was deleted", "OFFSET_MISSING", cursor_deleted),
    _case("cursor_deleted_zookeeper", "the cursor was deleted", "OFFSET_MISSING", cursor_deleted, InZooKeeper),
    _case("passed_over", "a filter passes over a table", "CONNECTOR_MISCONFIGURED", table_passed_over),
    _case("gtids_off", "gtidon was set to false", "CONNECTOR_MISCONFIGURED", by_position),
    _case("purged", "stopped, and the log purged", "GTID_PURGED", purged),
    _case("purged_zookeeper", "stopped, and the log purged", "GTID_PURGED", purged, InZooKeeper),
    _case("purged_running", "purged; Canal tries again for ever", "GTID_PURGED", purged_under_it),
    _case("set_ahead", "a set ahead of the server", "GTID_NOT_CONTAINED", set_ahead),
    _case("set_of_another", "a set with another server's numbers", "GTID_NOT_CONTAINED", set_of_another),
    _case("purged_rabbitmq", "stopped, and the log purged", "GTID_PURGED", purged, OverRabbitMq),
    _case("queue_deleted", "the queue was deleted", "TRANSPORT_MISCONFIGURED", queue_deleted, OverRabbitMq),
    _case("queue_unbound", "nothing leads to the queue", "CONNECTOR_MISCONFIGURED", queue_unbound, OverRabbitMq),
    _case("classic_queue", "the queue read is a classic one", "TRANSPORT_MISCONFIGURED", classic_queue, OverRabbitMq),
    _case("file_another_id", "another server's id in the cursor", "CONNECTOR_MISCONFIGURED", another_id, ByPosition),
    _case("file_purged", "stopped, and the log purged", "BINLOG_PURGED", purged, ByPosition),
    _case(
        "file_another_id_purged",
        "another server's id in the cursor, and the log purged",
        "BINLOG_PURGED",
        another_id_and_purged,
        ByPosition,
    ),
    _case("file_past_the_end", "a place past the file's end", "POSITION_PAST_END", past_the_end, ByPosition),
    _case("file_inside", "a place inside an event", "POSITION_MID_EVENT", inside_an_event, ByPosition),
    _case(
        "no_start",
        "MySQL 9.7, and settings without a start",
        "CONNECTOR_MISCONFIGURED",
        without_a_start,
        ByPosition,
        server=NEW.name,
    ),
)
