"""Faults of a Flink job and of the position that it stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.faults_diagnosis.case import Case
from tests.faults_diagnosis.flink import FlinkSubject
from tests.faults_diagnosis.subject import TABLES

Make = Callable[[FlinkSubject], None]


def purged(subject: FlinkSubject) -> None:
    subject.stop()
    subject.write(20)
    subject.purge()


def purged_under_it(subject: FlinkSubject) -> None:
    """Flink restarts the job again and again, and calls it RESTARTING or RUNNING."""
    purged(subject)
    subject.resume()
    subject.wait_failed()


def set_ahead(subject: FlinkSubject) -> None:
    """Somebody gave the stopped job a set of a server that was ahead."""
    subject.stop()
    uuid, _, numbers = subject.executed().rpartition(":")
    ahead = f"{uuid}:1-{int(numbers.rpartition('-')[2]) + 5}"
    subject.patch({**_here(subject), "gtids": ahead})


def set_of_another(subject: FlinkSubject) -> None:
    """A set with transactions of a server that this one never heard of."""
    subject.stop()
    subject.patch({**_here(subject), "gtids": f"{subject.executed()},3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3"})


def gtids_forgotten(subject: FlinkSubject) -> None:
    subject.stop()
    subject.patch({key: value for key, value in _here(subject).items() if key != "gtids"})


def without_the_state(subject: FlinkSubject) -> None:
    """The next start was decided without any state."""
    subject.stop()
    subject.patch(None)


def twice(subject: FlinkSubject) -> None:
    """The same job was started a second time."""
    plan, properties = subject.flink.plan(subject.name), {"pipeline.name": subject.name}
    subject.flink.cluster.sql(f"EXECUTE PLAN 'file://{plan}'", properties=properties)
    subject.wait(lambda: len(subject.connector.facts(subject.name).jobs) > 1, "the second job is seen")


def both_gone(subject: FlinkSubject) -> None:
    subject.delete()


def password_changed(subject: FlinkSubject) -> None:
    """The login of the source was changed, and its connections were cut."""
    subject.sql("ALTER USER 'debezium'@'%' IDENTIFIED WITH mysql_native_password BY 'another-one-1'")
    for number, user in subject.sql("SELECT id, user FROM information_schema.processlist"):
        if user == "debezium":
            subject.sql(f"KILL {number}")
    subject.wait_failed()


def password_back(subject: FlinkSubject) -> None:
    password = subject.mysql.debezium.password
    subject.sql(f"ALTER USER 'debezium'@'%' IDENTIFIED WITH mysql_native_password BY '{password}'")


def one_table_left_out(subject: FlinkSubject) -> None:
    """The pipeline declares a table that the job's statement does not read."""
    subject.sql(f"CREATE TABLE {subject.name}.others (id INT PRIMARY KEY)")
    subject.flink.register(subject.name, subject.server, [f"{subject.name}.{t}" for t in (*TABLES, "others")])


def _here(subject: FlinkSubject) -> dict[str, Any]:
    file, position = subject.end()
    value = {"file": file, "pos": str(position), "kind": "SPECIFIC", "gtids": subject.executed()}
    return {**value, "row": "0", "event": "0"}


def _case(name: str, fault: str, expected: str, make: Make, undo: Make | None = None, **more: Any) -> Case:
    # a case of this module is only ever given a pipeline with a Flink job
    given: Any = make
    undone: Any = undo
    return Case(name, fault, expected, "gtid", given, undone, pipeline=FlinkSubject, **more)


_SKIPS = {"debezium.event.processing.failure.handling.mode": "warn"}
CASES: tuple[Case, ...] = (
    _case("healthy", "nothing", "HEALTHY", lambda _s: None),
    _case("stopped", "somebody stopped the job", "CONNECTOR_STOPPED", lambda s: s.stop()),
    _case("without_state", "the next start is without state", "NEW_PIPELINE", without_the_state),
    _case("twice", "the job was started twice", "OFFSET_AMBIGUOUS", twice, both_gone, asked=False),
    _case("table_left_out", "the job does not read a table", "CONNECTOR_MISCONFIGURED", one_table_left_out),
    _case(
        "skips", "the job is set to skip what it cannot read", "CONNECTOR_MISCONFIGURED", lambda _s: None, config=_SKIPS
    ),
    _case("password", "the job's password was changed", "CONNECTOR_FAILED", password_changed, password_back),
    _case("gtids_forgotten", "an offset without its GTIDs", "GTID_MISSING_IN_OFFSET", gtids_forgotten, asked=False),
    _case("set_of_another", "a set with another server's numbers", "GTID_NOT_CONTAINED", set_of_another),
    _case("set_ahead", "a set ahead of the server", "GTID_AHEAD", set_ahead, asked=False),
    _case("purged", "stopped, and the log purged", "GTID_PURGED", purged),
    _case("purged_running", "purged; Flink restarts the job for ever", "GTID_PURGED", purged_under_it),
)
