"""Whether a pipeline's Spark Connect server can run its drivers: the server is asked, in a process that can be given up."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from airflow_cdc.config import settings
from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.spark_jars import Need
from airflow_cdc.hooks.endpoints import resolve_endpoints
from airflow_cdc.operators.spark_connect import CLASSIC_ONLY, remote_of
from airflow_cdc.spark_apps.driver import connect_answers
from airflow_cdc.spark_apps.driver.connect import Remote
from airflow_cdc.spark_apps.driver.connect_answers import Answers

NAME: Final = "spark connect"
# a server that does not answer is asked again for a minute
TIMEOUT_S: Final = 150.0
START: Final = "Is the server up, and started as the documentation of Spark Connect servers shows?"


def remote_checks(pipeline: Pipeline, needs: Sequence[Need]) -> Iterator[Check]:
    """The server answers, is of our release and in UTC, and has the extension, the jars and the Python that we need."""
    name = pipeline.name
    try:
        answers = ask(pipeline, remote_of(pipeline, pipeline.spark.conn_id), [need.entry for need in needs])
    except ConfigError as error:
        where = f" ({error.where})" if error.where else ""
        yield Check(name, NAME, "bad", f"{error.what}{where}", error.todo or START)
        return
    text = f"Spark {answers.spark}, {answers.tasks} tasks at once, {answers.python}; experimental"
    yield Check(name, NAME, "ok", text)
    yield from _jars(name, needs, answers.missing)
    yield Check(name, NAME, "warn", f"it runs no {', '.join(CLASSIC_ONLY)}", "Pause those DAGs.")


def ask(pipeline: Pipeline, remote: Remote, entries: Sequence[str]) -> Answers:
    """What the process says. Its settings, with the secrets in them, go through a pipe: nothing shows them.

    Raises ConfigError for a server that does not answer, or that no driver can use.
    """
    payload = {
        "pipeline": pipeline.to_json(),
        "endpoints": resolve_endpoints(pipeline).to_json(pipeline),
        "run_id": "doctor",
        "report_dir": settings.report_dir(),
        "connect": remote.to_json(),
        "jars": list(entries),
    }
    try:
        process = subprocess.run(
            [sys.executable, "-m", connect_answers.__name__],
            input=json.dumps(payload),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"it did not answer within {TIMEOUT_S:.0f} s", where=remote.url, todo=START) from None
    lines = process.stdout.splitlines()
    if not lines:
        raise ConfigError(
            (process.stderr.strip().splitlines() or ["no reason given"])[-1], where=remote.url, todo=START
        )
    reply = json.loads(lines[-1])
    if "error" in reply:
        facts = reply["error"]
        raise ConfigError(str(facts["what"]), where=str(facts.get("where", "")), todo=str(facts.get("todo", "")))
    return Answers(**reply)


def _jars(pipeline: str, needs: Sequence[Need], entries: Sequence[str]) -> Iterator[Check]:
    """`entries`: the class files that the server does not find."""
    lacking = [need for need in needs if need.entry in entries]
    for need in lacking:
        text = f"the server does not find {need.artifact}, which {need.why}"
        yield Check(pipeline, "jars", "bad", text, "Start the server with that jar.")
    if needs and not lacking:
        yield Check(pipeline, "jars", "ok", ", ".join(need.artifact for need in needs))
