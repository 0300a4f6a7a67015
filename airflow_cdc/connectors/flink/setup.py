"""What `airflow cdc init` asks about a Flink job."""

from __future__ import annotations

import json
from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup


def keys(name: str, answers: Answers) -> Sequence[Key]:
    """The keys below `connector`."""
    own = (("plan", "the compiled plan; worker and SQL gateway see the same file"), ("savepoints", "a URI"))
    written = tuple(Key(key, answers[f"flink_{key}"], why) for key, why in own if answers[f"flink_{key}"])
    return (
        Key("conn_id", f"{name}_flink", "the JobManager's REST interface"),
        Key("name", answers["flink_job"], "the job's name"),
        *written,
    )


def connections(name: str, answers: Answers) -> Sequence[NewConnection]:
    """The connection to the JobManager."""
    host, _, port = answers["flink_jobmanager"].partition(":")
    extra = json.dumps({"gateway": answers["flink_gateway"]}) if answers["flink_gateway"] else ""
    return (NewConnection(f"{name}_flink", "flink", host, int(port) if port.isdigit() else None, extra=extra),)


SETUP = Setup(
    (
        Question("flink_job", "The Flink job's name", as_pipeline=True),
        Question("flink_jobmanager", "Flink's JobManager, host:port of its REST interface", "localhost:8081"),
        Question("flink_gateway", "URL of Flink's SQL gateway, to start the job", needed=False),
        Question("flink_plan", "The job's compiled plan, a path that worker and gateway share", needed=False),
        Question("flink_savepoints", "Where savepoints are written, as a URI", needed=False),
    ),
    keys,
    connections,
)
