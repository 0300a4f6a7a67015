"""A real Flink cluster in session mode (JobManager, TaskManager, SQL gateway) with the MySQL source of Flink CDC.

Flink's distribution and its scripts are in no Maven repository; the modules in it are, and each server is one Java main.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from stack import fetch, rest
from stack.errors import StackError
from stack.kafka import quick
from stack.ports import HOST, free_ports
from stack.process import Child, end, spawn, wait_until

START_TIMEOUT_S: Final = 240.0
STATEMENT_TIMEOUT_S: Final = 120.0
SLOTS: Final = 4
_MAINS: Final = {
    "jobmanager": "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
    "taskmanager": "org.apache.flink.runtime.taskexecutor.TaskManagerRunner",
    "gateway": "org.apache.flink.table.gateway.SqlGateway",
}
_HEAPS: Final = {"jobmanager": "256m", "taskmanager": "384m", "gateway": "320m"}
# what Flink's own scripts open on Java 17
_OPENS: Final = ("lang", "net", "io", "nio", "text", "time", "util", "util.concurrent", "util.concurrent.atomic")
_LOG4J: Final = """\
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
appender.out.name = out
appender.out.type = CONSOLE
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %-60c %x - %m%n
"""


@dataclass(frozen=True, slots=True)
class FlinkCluster:
    """A running cluster.

    Attributes:
        url: of the JobManager's REST interface, without a slash at its end.
        gateway: of the SQL gateway's.
        class_path: of all its servers.
    """

    folder: Path
    url: str
    gateway: str
    children: tuple[Child, ...]
    class_path: str = ""

    @property
    def savepoints(self) -> Path:
        """Where savepoints are kept."""
        return self.folder / "savepoints"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One call of the JobManager."""
        return rest.call(method, self.url + path, body)

    def sql(self, *statements: str, properties: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Run statements in one session of the gateway; the last one's rows, each as column → value."""
        session = rest.call("POST", f"{self.gateway}/v1/sessions", {"properties": dict(properties or {})})
        at = f"{self.gateway}/v1/sessions/{session['sessionHandle']}"
        try:
            return [_run(at, statement) for statement in statements][-1]
        finally:
            rest.call("DELETE", at)

    def jobs(self, name: str) -> list[dict[str, Any]]:
        """The jobs of this name that have not ended."""
        ended = {"FINISHED", "CANCELED", "FAILED"}
        jobs = self.call("GET", "/jobs/overview")["jobs"]
        return [job for job in jobs if job["name"] == name and job["state"] not in ended]

    def cancel(self, name: str) -> None:
        """Cancel the jobs of this name, and wait until they have ended."""
        for job in self.jobs(name):
            self.call("PATCH", f"/jobs/{job['jid']}?mode=cancel")
        wait_until(lambda: not self.jobs(name) or None, timeout=STATEMENT_TIMEOUT_S, what=f"{name} to end")

    def new_gateway(self) -> FlinkCluster:
        """End the SQL gateway and start another at the same address; jobs go on. Returns the cluster with it."""
        *others, old = self.children
        end(old)
        new = _launch("gateway", self.folder / "conf", self.class_path, keep=False)
        cluster = replace(self, children=(*others, new))
        _wait_for_gateway(self.gateway, new)
        return cluster

    def stop(self) -> None:
        """End its servers."""
        end(*reversed(self.children))


def start_flink(
    folder: Path,
    *,
    sets: Sequence[str] = (),
    jars: Sequence[Path] = (),
    more: Mapping[str, str] | None = None,
    keep: bool = False,
) -> FlinkCluster:
    """Start a cluster and wait until it has all its slots and the gateway answers.

    `sets`, `jars`: further sets of jars, and single ones, for its class path; `more`: further settings.
    """
    fetch.fetch_all(["flink", *sets])
    conf = folder / "conf"
    conf.mkdir(parents=True)
    ports = free_ports(5)
    (conf / "log4j.properties").write_text(_LOG4J)
    settings = {**_settings(folder, ports), **(more or {})}
    (conf / "config.yaml").write_text("".join(f'{key}: "{value}"\n' for key, value in settings.items()))
    class_path = ":".join([*(fetch.classpath(name) for name in ("flink", *sets)), *map(str, jars)])
    url, gateway = f"http://{HOST}:{ports[1]}", f"http://{HOST}:{ports[3]}"
    cluster = FlinkCluster(folder, url, gateway, (), class_path)
    try:
        for name in _MAINS:
            cluster = replace(cluster, children=(*cluster.children, _launch(name, conf, class_path, keep=keep)))
        _, taskmanager, sql = cluster.children
        _wait_for_gateway(gateway, sql)
        wait_until(
            lambda: _has_slots(url) or None,
            timeout=START_TIMEOUT_S,
            what="Flink's slots",
            child=taskmanager,
            interval=0.5,
        )
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _wait_for_gateway(url: str, child: Child) -> None:
    wait_until(
        lambda: _answers(f"{url}/v1/info"),
        timeout=START_TIMEOUT_S,
        what="the SQL gateway",
        child=child,
        interval=0.5,
    )


def _launch(name: str, conf: Path, class_path: str, *, keep: bool) -> Child:
    opens = [word for package in _OPENS for word in ("--add-opens", f"java.base/java.{package}=ALL-UNNAMED")]
    argv = [
        fetch.java(), *quick(_HEAPS[name]), "-Djava.net.preferIPv4Stack=true", *opens, f"-Dlog4j.configurationFile={conf / 'log4j.properties'}",
        "-cp", class_path, _MAINS[name], *(() if name == "gateway" else ("-c", str(conf))),
    ]  # fmt: skip
    env = {**os.environ, "FLINK_CONF_DIR": str(conf)}
    return spawn(f"flink-{name}", argv, log=conf.parent / f"{name}.log", keep=keep, env=env, grace=10)


def _settings(folder: Path, ports: Sequence[int]) -> dict[str, str]:
    rpc, jobs, tasks, gateway, data = ports
    return {
        "jobmanager.rpc.address": HOST,
        "jobmanager.rpc.port": str(rpc),
        "jobmanager.bind-host": HOST,
        "rest.address": HOST,
        "rest.bind-address": HOST,
        "rest.port": str(jobs),
        "taskmanager.host": HOST,
        "taskmanager.bind-host": HOST,
        "taskmanager.rpc.port": str(tasks),
        "taskmanager.data.port": str(data),
        "taskmanager.numberOfTaskSlots": str(SLOTS),
        # a TaskManager that no script starts wants each part of its memory
        "taskmanager.cpu.cores": "2",
        "taskmanager.memory.task.heap.size": "192m",
        "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.framework.heap.size": "128m",
        "taskmanager.memory.framework.off-heap.size": "64m",
        "taskmanager.memory.managed.size": "64m",
        "taskmanager.memory.network.min": "64m",
        "taskmanager.memory.network.max": "64m",
        "taskmanager.memory.jvm-metaspace.size": "128m",
        "taskmanager.memory.jvm-overhead.min": "64m",
        "taskmanager.memory.jvm-overhead.max": "64m",
        "sql-gateway.endpoint.rest.address": HOST,
        "sql-gateway.endpoint.rest.bind-address": HOST,
        "sql-gateway.endpoint.rest.port": str(gateway),
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.dir": f"file://{folder / 'checkpoints'}",
        "execution.checkpointing.savepoint-dir": f"file://{folder / 'savepoints'}",
        "io.tmp.dirs": str(folder / "tmp"),
        "parallelism.default": "1",
    }


def _has_slots(url: str) -> bool:
    overview = _answers(f"{url}/overview")
    return overview is not None and int(overview["slots-total"]) >= SLOTS


def _answers(url: str) -> Any:
    try:
        return rest.call("GET", url, timeout=5)
    except StackError:
        return None


def _run(session: str, statement: str) -> list[dict[str, Any]]:
    handle = rest.call("POST", f"{session}/statements", {"statement": statement})["operationHandle"]
    at = f"{session}/operations/{handle}"

    def ended() -> str | None:
        status = str(rest.call("GET", f"{at}/status")["status"])
        return status if status in {"FINISHED", "ERROR", "CANCELED"} else None

    status = wait_until(ended, timeout=STATEMENT_TIMEOUT_S, what=f"the statement {statement[:60]}")
    try:
        return list(_rows(session, at))
    except rest.RestError as error:
        causes = error.body.split("Caused by: ")[1:]
        why = causes[-1].partition("\\n")[0] if causes else error.body
        raise StackError(f"{statement[:60]} ended as {status}: {why[:800]}") from error
    finally:
        rest.call("DELETE", f"{at}/close")


def _rows(session: str, operation: str) -> Iterator[dict[str, Any]]:
    """The rows of a statement, page by page."""
    server, page = session.partition("/v1/")[0], f"{operation}/result/0?rowFormat=JSON"

    def ready() -> dict[str, Any] | None:
        answer: dict[str, Any] = rest.call("GET", page)
        return answer if answer["resultType"] != "NOT_READY" else None

    while page:
        answer = wait_until(ready, timeout=STATEMENT_TIMEOUT_S, what="the statement's rows")
        names = [column["name"] for column in answer["results"]["columns"]]
        yield from (dict(zip(names, row["fields"], strict=True)) for row in answer["results"]["data"])
        page = server + answer["nextResultUri"] if answer.get("nextResultUri") else ""
