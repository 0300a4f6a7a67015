"""What a test waits for, read from the functions that its thread is in.

A table from functions to a name. No test and no helper has to say anything: `stack/` and the clients are the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

COMPUTES: Final = "Python computes"
POLLS: Final = "a poll"


@dataclass(frozen=True, slots=True)
class Call:
    """One function on a stack: the file's path, and its name."""

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class Wait:
    """What is waited for, and the first function of this repository that does."""

    kind: str
    where: str


@dataclass(frozen=True, slots=True)
class Row:
    """A stack with a function that matches waits for `kind`."""

    kind: str
    path: re.Pattern[str]
    name: re.Pattern[str]

    def holds(self, call: Call) -> bool:
        return self.path.search(call.path) is not None and self.name.search(call.name) is not None


def _row(kind: str, path: str, name: str = "") -> Row:
    return Row(kind, re.compile(path), re.compile(name))


_STARTS: Final = (
    r"^_?(start|restart|launch|wait_ready|wait_for_gateway|initialise|format|prepare|spawn|killed_and_started)"
)
# the first row that holds: ends before starts, starts before the polls that they are made of
ROWS: Final = (
    _row("a server's end", r"/stack/process\.py$", r"^(end|wait_gone)$"),
    _row("Airflow's start", r"/stack/airflow\.py$", _STARTS),
    _row("Kafka Connect's start", r"/stack/connect\.py$", _STARTS),
    _row("Kafka's start", r"/stack/kafka\.py$", _STARTS),
    _row("MySQL's start", r"/stack/(mysql|mariadb)\.py$", _STARTS),
    _row("PostgreSQL's start", r"/stack/postgres\.py$", _STARTS),
    _row("RabbitMQ's start", r"/stack/rabbitmq\.py$", _STARTS),
    _row("OpenSearch's start", r"/stack/opensearch(_security)?\.py$", _STARTS),
    _row("Flink's start", r"/stack/flink\.py$", r"^(start_flink|_launch|_wait_for_gateway|new_gateway)$"),
    _row("Canal's and ZooKeeper's start", r"/stack/canal\.py$", r"^(start|start_zookeeper|make_canal)$"),
    _row(
        "another server's start",
        r"/stack/(hive|nessie|object_store|rest_catalog|celery|spark_cluster|hudi)\.py$",
        _STARTS,
    ),
    _row("jars and programs", r"/stack/(fetch|debian)\.py$"),
    _row("a Spark session's start", r"/pyspark/(sql/session|java_gateway)\.py$", r"^(getOrCreate|launch_gateway)$"),
    _row("a Spark session's end", r"/pyspark/sql/session\.py$", r"^stop$"),
    _row("a job of Flink", r"/(stack/flink|airflow_cdc/connectors/flink/.*)\.py$"),
    _row("a poll of a connector", r"/airflow_cdc/connectors/"),
    _row(POLLS, r"/(stack/process|airflow_cdc/core/poll)\.py$", r"^(wait_until|poll_until|poll_while_moving)$"),
    _row("Spark's work", r"/(py4j|pyspark)/"),
    _row("another process", r"/subprocess\.py$"),
    _row("Kafka's answer", r"/site-packages/kafka/"),
    _row("a database's answer", r"/site-packages/(pymysql|psycopg)/"),
    _row("an answer by HTTP", r"/(http/client|urllib/request|httpcore/.*|httpx/.*|urllib3/.*)\.py$"),
    _row(
        "another thread",
        r"/(threading|concurrent/futures/.*|queue)\.py$",
        r"^(wait|join|acquire|result|get|_wait_for_tstate_lock)$",
    ),
)
_OWN: Final = re.compile(r"/(tests|stack|demo|airflow_cdc|spark_apps|dags)/")
_OTHERS: Final = re.compile(r"/site-packages/|/tests/times/|/stack/(process|rest)\.py$|/airflow_cdc/core/poll\.py$")
_LAST: Final = len(ROWS)
# a line of faulthandler's
_LINE: Final = re.compile(r'  File "(?P<path>.*)", line \d+ in (?P<name>.*)')


def calls(dump: str, thread: int) -> tuple[Call, ...]:
    """The functions of a thread in what faulthandler wrote of all threads, the innermost first."""
    _, _, own = dump.partition(f"hread 0x{thread:016x} ")
    lines = own.partition("\n\n")[0].splitlines()
    return tuple(Call(found["path"], found["name"]) for line in lines if (found := _LINE.match(line)))


def read(stack: Sequence[Call]) -> Wait:
    """What this stack waits for. A poll counts as one also while its question is being answered."""
    row = min(map(_row_of, stack), default=_LAST)
    own = next(filter(None, map(_own, stack)), "")
    return Wait(ROWS[row].kind if row < _LAST else COMPUTES, own)


@cache
def _row_of(call: Call) -> int:
    """The first row that holds for a function: five times a second there is no time for every pattern."""
    return next((number for number, row in enumerate(ROWS) if row.holds(call)), _LAST)


@cache
def _own(call: Call) -> str:
    """A function of this repository by its path in it, "" for one that only waits for others, and for anybody else's."""
    match = _OWN.search(call.path)
    if match is None or _OTHERS.search(call.path):
        return ""
    return f"{call.path[match.start() + 1 :]}:{call.name}"
