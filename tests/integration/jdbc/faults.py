"""Faults of a sink connector, made on real servers: what is done to a healthy pipeline, and the problem that must be named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from stack.process import wait_until
from tests.integration.jdbc.fed import SECONDS, Fed


@dataclass(frozen=True, slots=True)
class Fault:
    """`make` makes the fault; `says`: words that the evidence must hold; `policy`: of the pipeline."""

    name: str
    code: str
    make: Callable[[Fed], object]
    says: str = ""
    policy: Mapping[str, Any] = field(default_factory=dict)


def negative_time(fed: Fed) -> None:
    """One value that the sink connector cannot write."""
    fed.execute("INSERT INTO words (lang, n, clock) VALUES ('xx', 1, '-23:59:59.123456')")


def rest(fed: Fed, how: str) -> None:
    """Pause or stop the sink connector."""
    fed.servers.worker.call("PUT", f"/connectors/{fed.sink}/{how}")


def records_wait(fed: Fed) -> None:
    rest(fed, "stop")
    fed.execute("INSERT INTO words (lang, n) VALUES ('en', 2)")


def move_group(fed: Fed, offset: int | None) -> None:
    """Set the group to an offset in the topic of `words`, which Connect accepts whatever it is; None: remove all offsets."""
    call, path = fed.servers.worker.call, f"/connectors/{fed.sink}/offsets"
    wait_until(lambda: call("GET", path)["offsets"] or None, timeout=SECONDS, what="the group to have offsets")
    rest(fed, "stop")

    def resting() -> bool | None:
        status = call("GET", f"/connectors/{fed.sink}/status")
        return True if status["connector"]["state"] == "STOPPED" and not status["tasks"] else None

    wait_until(resting, timeout=SECONDS, what="the sink connector to rest")
    if offset is None:
        call("DELETE", path)
        return
    part = {"kafka_topic": fed.topic("words"), "kafka_partition": 0}
    call("PATCH", path, {"offsets": [{"partition": part, "offset": {"kafka_offset": offset}}]})


def second_connector(fed: Fed) -> None:
    """Another sink connector with the same group."""
    fed.feed({"consumer.override.group.id": f"connect-{fed.sink}"}, name=fed.second)


def unreadable(fed: Fed) -> None:
    """A record that the converter can't read goes to the dead-letter queue, and the sink connector runs on."""
    fed.feed(
        {
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": f"{fed.name}.letters",
            "errors.deadletterqueue.topic.replication.factor": "1",
        }
    )
    fed.send("words", b"{", b"{")


FAULTS: Final = (
    Fault("failed", "SINK_CONNECTOR_FAILED", negative_time, "NanoOfDay"),
    Fault("paused", "SINK_CONNECTOR_STOPPED", partial(rest, how="pause"), "PAUSED"),
    Fault("stopped", "SINK_CONNECTOR_STOPPED", partial(rest, how="stop"), "STOPPED"),
    Fault("behind", "SINK_BEHIND", records_wait, "1 of them", {"max_lag": "1s"}),
    Fault("beyond the end", "SINK_GROUP_LOST", partial(move_group, offset=1_000_000), "beyond the topic's end"),
    Fault("reset", "SINK_GROUP_LOST", partial(move_group, offset=None), "has no offset"),
    Fault("two with one group", "SINK_GROUP_SHARED", second_connector, "-two-"),
    Fault("letters", "SINK_LETTERS", unreadable, "1 records"),
    Fault(
        "keeps deleted rows", "SINK_MISCONFIGURED", lambda fed: fed.feed({"delete.enabled": "false"}), "delete.enabled"
    ),
)
