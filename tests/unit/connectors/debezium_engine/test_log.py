"""Why the engine has ended."""

from __future__ import annotations

from pathlib import Path

from airflow_cdc.connectors.debezium_engine.log import failure_in, failure_of, size_of

# of a real engine, shortened
BEGUN = "2026-11-25 13:38:31,620 INFO AsyncEmbeddedEngine Engine state has changed from 'CREATING' to 'INITIALIZING'"
FAILED = """\
2026-11-25 13:38:33,404 ERROR AsyncEmbeddedEngine 1 task(s) out of 1 failed to start.
2026-11-25 13:38:33,404 ERROR AsyncEmbeddedEngine Engine has failed with
java.util.concurrent.ExecutionException: io.debezium.DebeziumException: The connector is trying to read password=hush-1
\tat java.base/java.util.concurrent.FutureTask.report(FutureTask.java:122)
Caused by: io.debezium.DebeziumException: The connector is trying to read, but this is no longer available on the server.
2026-11-25 13:38:33,406 INFO AsyncEmbeddedEngine Engine state has changed from 'STARTING_TASKS' to 'STOPPING'
"""
LOG = f"{BEGUN}\n{FAILED}"


def test_the_error_and_its_trace_are_taken_and_no_secret() -> None:
    failure = failure_of(LOG.splitlines())
    assert failure.splitlines()[0] == "Engine has failed with"
    assert failure.endswith("no longer available on the server.")
    assert "hush-1" not in failure


def test_an_error_before_the_newest_start_is_over() -> None:
    assert failure_of(f"{LOG}{BEGUN}\n".splitlines()) == ""
    assert failure_of([]) == ""


def test_debezium_server_s_own_word_counts_too() -> None:
    line = "12:00:00 ERROR [io.deb.ser.ConnectorLifecycle] Connector completed: success = 'false', message = 'no', error = 'x'"
    assert failure_of([BEGUN, line]).startswith("Connector completed: success = 'false'")


def test_only_what_follows_a_start_counts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert (failure_in("", "here"), failure_in(str(path), "here"), size_of(str(path)), size_of("")) == ("", "", 0, 0)
    path.write_text(LOG)
    since = size_of(str(path))
    assert failure_in(str(path), "here")
    assert failure_in(str(path), "here", since=since) == ""
    path.write_text(FAILED)  # the log was begun anew
    assert failure_in(str(path), "here", since=since + 1)
