"""What people paste when a connector has died: over 200 texts in the form in which the systems print them, and what wraps them.

The texts are in tests/data/pasted-texts.txt: each below a line with the code that it must give, and the system that says it.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.diagnosing import explain, finding
from tests.paths import DATA
from tests.unit.builders import ALL_CODES


def _texts() -> list[tuple[str, str, str]]:
    """(code, origin, text) of each."""
    chunks = (DATA / "pasted-texts.txt").read_text(encoding="utf-8").removeprefix("=== ").split("\n=== ")
    heads = [(chunk.partition("\n")[0].partition(" | "), chunk.partition("\n")[2]) for chunk in chunks]
    return [(head[0], head[2], text) for head, text in heads]


TEXTS = _texts()
# one of each kind of form: a lone trace, a log with levels, a server's line, another language
SOME = [one for one in TEXTS if one[1] in {
    "MySQL 8.0, through nothing", "Debezium 1.9, file and position", "Debezium 2.7, offset with a GTID set",
    "PostgreSQL 18", "PostgreSQL in German", "Canal, cursor file", "Flink CDC 2.2", "Debezium 3.6", "Kafka, topic ACL",
    "Debezium, the name is used", "reset inside a large transaction", "MySQL 8.4, an event or a position",
    "Debezium, its history's clients without security", "MySQL, password",
}]  # fmt: skip


def test_there_are_two_hundred_and_each_code_is_one_of_ours() -> None:
    assert len(TEXTS) >= 200
    assert len({text for _, _, text in TEXTS}) == len(TEXTS)
    assert {code for code, _, _ in TEXTS} <= ALL_CODES | {"UNKNOWN"}


@pytest.mark.parametrize(("code", "origin", "text"), TEXTS, ids=[f"{code}-{origin}" for code, origin, _ in TEXTS])
def test_what_a_system_prints_is_named(code: str, origin: str, text: str) -> None:
    explained = explain(text)
    assert explained.code == code, origin
    assert bool(explained.line) == (code != "UNKNOWN")


def _docker(text: str) -> str:
    return "\n".join(f"connect-1  | {line}" for line in text.splitlines())


def _kubernetes(text: str) -> str:
    return "\n".join(f"2026-10-02T04:11:09.201873456Z stderr F {line}" for line in text.splitlines())


def _pod(text: str) -> str:
    return "\n".join(f"[pod/connect-0/connect] {line}" for line in text.splitlines())


def _journal(text: str) -> str:
    return "\n".join(f"Oct  2 04:11:09 kc-1 connect-distributed[911]: {line}" for line in text.splitlines())


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def _status(text: str) -> str:
    task = {"id": 0, "state": "FAILED", "worker_id": "10.1.0.4:8083", "trace": text}
    return json.dumps({"name": "crm", "connector": {"state": "RUNNING"}, "tasks": [task], "type": "source"})


def _all_connectors(text: str) -> str:
    well = {"status": {"name": "a", "connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}}
    return "$ curl -s localhost:8083/connectors?expand=status\n" + json.dumps(
        {"a": well, "crm": {"status": json.loads(_status(text))}}, indent=1
    )


def _json_log(text: str) -> str:
    first, _, rest = text.partition("\n")
    line = {"@timestamp": "2026-10-02T04:11:09Z", "level": "ERROR", "message": first, "stack_trace": rest}
    return json.dumps(line)


def _log4j_json(text: str) -> str:
    """With `stacktraceAsString=false`, its default: the exception is an object with its causes."""
    first, *causes = text.replace("\n\tat ", " at ").replace("\n\t... ", " ").split("\nCaused by: ")
    thrown: dict[str, object] = {}
    for cause in reversed([first.partition("\n")[2] or first, *causes]):
        name, _, message = cause.partition(": ")
        thrown = {"name": name, "message": message, "extendedStackTrace": []} | ({"cause": thrown} if thrown else {})
    line = {"instant": {"epochSecond": 1}, "level": "ERROR", "message": first.partition("\n")[0], "thrown": thrown}
    return json.dumps(line)


def _airflow(text: str) -> str:
    return "\n".join(f"[2026-10-02, 04:11:09 UTC] {{subprocess.py:93}} INFO - {line}" for line in text.splitlines())


def _docker_json(text: str) -> str:
    return "\n".join(json.dumps({"log": f"{line}\n", "stream": "stderr"}) for line in text.splitlines())


def _yaml(text: str) -> str:
    return "status:\n  connectorStatus:\n    tasks:\n    - state: FAILED\n      trace: " + json.dumps(text)


def _typographic(text: str) -> str:
    return text.replace(" '", " ‘").replace("'", "’").replace(' "', " “").replace('"', "”")


def _escaped(text: str) -> str:
    return (
        text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace('"', "&quot;")
        .replace("'", "&#39;")
    )


def _coloured(text: str) -> str:
    return f"\x1b[31m{text}\x1b[0m"


def _wrapped(text: str) -> str:
    """As a terminal of 80 columns breaks lines, between words."""
    lines = []
    for line in text.splitlines():
        while len(line) > 80 and " " in line[1:80]:
            cut = line.rindex(" ", 1, 80)
            lines.append(line[:cut])
            line = " " + line[cut + 1 :]  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines)


WRAPPERS: list[Callable[[str], str]] = [
    _airflow, _log4j_json, _docker, _kubernetes, _pod, _journal, _quoted, _status, _all_connectors, _json_log, _docker_json, _yaml, _typographic,
    _escaped, _coloured, _wrapped,
]  # fmt: skip


@pytest.mark.parametrize("wrap", WRAPPERS, ids=lambda wrap: wrap.__name__.strip("_"))
def test_what_wraps_a_text_does_not_hide_it(wrap: Callable[[str], str]) -> None:
    assert len(SOME) >= 12
    named = {origin: (code, explain(wrap(text)).code) for code, origin, text in SOME}
    assert {origin: pair for origin, pair in named.items() if pair[0] != pair[1]} == {}


def test_the_trace_of_an_error_that_a_logger_wrote_as_an_object_with_a_name_is_read() -> None:
    trace = "ConnectException: stopped\n\tat io.debezium.X.y(X.java:1)\nCaused by: Could not find first log file name in binary log index file"
    line = {"level": "error", "message": "failed", "error": {"name": "ConnectException", "stack_trace": trace}}
    assert explain(json.dumps(line)).code == "BINLOG_PURGED"


# ---- which failure of a long log leads --------------------------------------------------------------

AT = "[2026-10-02 0{}:00,000] {} [crm|task-0] {}\n"
SLOT = 'Cannot start: ERROR: replication slot "crm" does not exist (io.debezium.connector.postgresql.X:1)'
READS = AT.format(
    "2:12", "INFO", "Source task finished initialization and start (org.apache.kafka.connect.runtime.X:1)"
)
KILLED = (
    AT.format(
        "9:40",
        "ERROR",
        "WorkerSourceTask{id=crm-0} Task threw an uncaught and unrecoverable exception. Task is being killed",
    )
    + 'org.postgresql.util.PSQLException: FATAL: password authentication failed for user "cdc"\n'
)


def test_the_newest_failure_leads_and_one_that_healed_before_it_is_mentioned() -> None:
    found = finding(AT.format("2:11", "WARN", SLOT) + READS + KILLED)
    assert (found.leads.code, [one.code for one in found.over]) == ("CONNECTOR_FAILED", ["SLOT_MISSING"])
    assert "password" in found.leads.line
    assert not found.healed


def _by_entry(text: str) -> str:
    return "".join(reversed([f"[{entry}" for entry in text.split("\n[") if entry])).replace("[[", "[")


def _by_line(text: str) -> str:
    return "\n".join(reversed(text.splitlines()))


@pytest.mark.parametrize("shown", [_by_line, _by_entry], ids=["lines", "entries"])
def test_a_log_whose_newest_line_stands_on_top_is_read_from_its_end(shown: Callable[[str], str]) -> None:
    trace = "\tat org.postgresql.core.v3.ConnectionFactoryImpl.open(ConnectionFactoryImpl.java:1)\n"
    log = AT.format("2:11", "WARN", SLOT) + "\n" + READS + "\n" + KILLED + trace
    found = finding(shown(log))
    assert (found.leads.code, [one.code for one in found.over]) == ("CONNECTOR_FAILED", ["SLOT_MISSING"])
    assert "password" in found.leads.line
    assert not found.healed


def test_a_warning_never_outranks_the_error_that_ended_the_task() -> None:
    for warning in (AT.format("9:39", "WARN", SLOT), AT.format("9:41", "WARN", SLOT)):
        text = warning + KILLED if "9:39" in warning else KILLED + warning
        assert finding(text).leads.code == "CONNECTOR_FAILED"
        assert [one.code for one in finding(text).beside] == ["SLOT_MISSING"]


def test_an_error_that_was_retried_never_outranks_the_one_that_ended_the_task() -> None:
    retried = AT.format("9:39", "ERROR", f"{SLOT}. Will retry") + AT.format(
        "9:39", "WARN", "Going to restart connector after 10 sec. after a retriable exception"
    )
    assert finding(retried + KILLED).leads.code == "CONNECTOR_FAILED"


def test_an_unknown_error_that_ended_the_task_is_not_replaced_by_an_older_one() -> None:
    unknown = KILLED.replace(
        'org.postgresql.util.PSQLException: FATAL: password authentication failed for user "cdc"',
        "java.lang.NullPointerException: mask",
    )
    found = finding(AT.format("2:11", "ERROR", SLOT) + READS + unknown)
    assert (found.leads.code, found.leads.line) == ("CONNECTOR_FAILED", "java.lang.NullPointerException: mask")
    assert [one.code for one in found.over] == ["SLOT_MISSING"]


def test_a_failure_after_which_the_log_reads_on_is_named_as_healed() -> None:
    found = finding(AT.format("2:11", "ERROR", SLOT) + READS)
    assert (found.leads.code, found.healed) == ("SLOT_MISSING", True)


def test_of_two_failures_hours_apart_without_a_start_between_them_the_later_leads() -> None:
    duplicate = AT.format("1:00", "ERROR", "A slave with the same server_uuid/server_id as this slave has connected")
    refused = AT.format("9:00", "ERROR", "Access denied for user 'cdc'@'10.0.0.9' (using password: YES)")
    found = finding(duplicate + refused)
    assert (found.leads.code, [one.code for one in found.over]) == ("CONNECTOR_FAILED", ["DUPLICATE_SERVER_ID"])


# ---- who says it, and what the text alone cannot decide ---------------------------------------------


@pytest.mark.parametrize(
    ("package", "engine"),
    [
        ("io.debezium.connector.mysql.MySqlSnapshotChangeEventSource", "Debezium"),
        ("i.d.c.mysql.MySqlSnapshotChangeEventSource", "Debezium"),
        ("org.apache.flink.cdc.connectors.mysql.debezium.DebeziumUtils", "Flink CDC"),
        ("com.ververica.cdc.connectors.mysql.debezium.DebeziumUtils", "Flink CDC"),
        ("com.alibaba.otter.canal.parse.inbound.mysql.MysqlEventParser", "Canal"),
        ("c.a.o.c.p.inbound.mysql.rds.RdsBinlogEventParserProxy", "Canal"),
        ("com.example.Reader", ""),
    ],
)
def test_an_engine_is_named_by_its_own_packages(package: str, engine: str) -> None:
    text = "Cannot read the binlog filename and position via 'SHOW MASTER STATUS'. Make sure your server is correctly configured"
    found = finding(f"java.lang.RuntimeException: {text}\n\tat {package}.read(X.java:1)")
    assert (found.leads.code, found.engine) == ("CONNECTOR_FAILED", engine)
    assert ("Flink" in found.leads.meaning) == (engine == "Flink CDC")


@pytest.mark.parametrize(
    ("text", "leads", "other", "asks"),
    [
        ('ERROR: replication slot "crm" is active for PID 4711', "SLOT_ACTIVE_ELSEWHERE", "CONNECTOR_FAILED_TRANSIENT", "pg_stat_replication"),
        ("Unable to obtain valid replication slot. Make sure there are no long-running transactions", "SLOT_INVALIDATED", "CONNECTOR_FAILED_TRANSIENT", "xact_start"),
        ('ERROR: replication slot "crm" already exists', "SLOT_ACTIVE_ELSEWHERE", "SOURCE_MISCONFIGURED", "pg_replication_slots"),
        ("could not find next log; the first event 'bin.000086' at 57144201", "BINLOG_PURGED", "POSITION_PAST_END", "SHOW BINARY LOGS"),
        ("log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source; the first event 'bin.000123' at 812, the last", "CONNECTOR_FAILED", "POSITION_MID_EVENT", "SHOW BINLOG EVENTS IN 'bin.000123' FROM 812"),
        ("Failed to deserialize data of EventHeaderV4{eventType=EXT_UPDATE_ROWS}\nCaused by: java.io.EOFException", "CONNECTOR_FAILED_TRANSIENT", "CONNECTOR_FAILED", "position"),
        ("You have an error in your SQL syntax; check the manual for the right syntax to use near 'MASTER STATUS' at line 1", "CONNECTOR_FAILED", "SOURCE_MISCONFIGURED", "@@log_bin"),
        ("Topic crm.a not present in metadata after 60000 ms", "TRANSPORT_MISCONFIGURED", "CONNECTOR_FAILED_TRANSIENT", "kafka-topics"),
    ],
)  # fmt: skip
def test_where_a_text_cannot_decide_both_causes_stand_with_the_question_that_does(
    text: str, leads: str, other: str, asks: str
) -> None:
    explained = explain(text)
    assert explained.code == leads
    assert [code for code, _ in explained.otherwise] == [other]
    assert asks in explained.ask


def test_an_event_at_the_beginning_of_a_file_leaves_no_doubt() -> None:
    text = "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source; the first event 'bin.000123' at 4, the"
    assert (explain(text).code, explain(text).otherwise) == ("CONNECTOR_FAILED", ())


@pytest.mark.parametrize(
    "wrap", [_docker, _kubernetes, _pod, _journal, _quoted, _docker_json], ids=lambda wrap: wrap.__name__.strip("_")
)
def test_what_stands_before_each_line_of_a_long_log_does_not_change_which_failure_leads(
    wrap: Callable[[str], str],
) -> None:
    killed = (
        KILLED.partition("\n")[0] + "\njava.lang.NullPointerException: mask\n\tat com.example.Mask.apply(Mask.java:7)\n"
    )
    found = finding(wrap(AT.format("2:11", "ERROR", SLOT) + READS + killed))
    assert (found.leads.code, found.leads.line) == ("CONNECTOR_FAILED", "java.lang.NullPointerException: mask")
    assert [one.code for one in found.over] == ["SLOT_MISSING"]


def test_a_task_that_only_passes_an_error_on_is_named_by_the_line_before_it() -> None:
    """That sending failed is said when the task ends; why it failed is said before, at the record."""
    log = (
        "[2026-10-02 04:11:09,201] ERROR WorkerSourceTask{id=crm-0} failed to send record to crm.t: (org.apache.kafka.connect.runtime.WorkerSourceTask)\n"
        "org.apache.kafka.common.errors.RecordTooLargeException: The message is 4794004 bytes when serialized which is larger than 1048576\n"
        "[2026-10-02 04:11:10,101] ERROR WorkerSourceTask{id=crm-0} Task is being killed and will not recover until manually restarted\n"
        "org.apache.kafka.connect.errors.ConnectException: WHY\n"
        "\tat org.apache.kafka.connect.runtime.WorkerSourceTask.maybeThrowProducerSendException(WorkerSourceTask.java:266)\n"
    )
    assert (
        "larger than the producer"
        in finding(log.replace("WHY", "Unrecoverable exception from producer send callback")).leads.meaning
    )
    assert "no list of ours" in finding(log.replace("WHY", "the moon is full")).leads.meaning


# ---- an error of a connector's own code, in no list of ours ----------------------------------------

OWN = (
    "io.debezium.DebeziumException: the moon is full\n"
    "\tat io.debezium.connector.postgresql.PostgresConnectorTask.start(PostgresConnectorTask.java:75)\n"
)


@pytest.mark.parametrize("before", ["", AT.format("2:11", "ERROR", "its container is dead")], ids=["alone", "logged"])
def test_an_exception_of_a_connectors_own_code_is_an_error_although_nothing_says_that_a_task_ended(before: str) -> None:
    found = finding(before + OWN)
    assert (found.leads.code, found.leads.line) == (
        "CONNECTOR_FAILED",
        "io.debezium.DebeziumException: the moon is full",
    )
    assert "no list of ours" in found.leads.meaning


@pytest.mark.parametrize(
    "text",
    [
        "com.example.MaskException: the moon is full\n\tat com.example.Mask.apply(Mask.java:75)\n",
        OWN.partition("\n")[2],
        AT.format("2:11", "INFO", "KILL DUMP 7 failure:java.io.IOException: no")
        + "\tat com.alibaba.otter.canal.A.b(A.java:1)\n",
        AT.format("2:11", "WARN", "its metrics could not be asked") + OWN,
    ],
    ids=["of others", "a trace without its exception", "an INFO", "a warning"],
)
def test_what_no_connector_threw_or_logged_as_an_error_stays_unknown(text: str) -> None:
    assert finding(text).leads.code == "UNKNOWN"


def test_a_known_failure_outranks_an_exception_in_no_list() -> None:
    assert (
        finding(AT.format("2:11", "ERROR", SLOT) + AT.format("2:12", "ERROR", "it ended") + OWN).leads.code
        == "SLOT_MISSING"
    )
