"""A Connect worker with a registry's converters, and the registry, beside a broker that runs already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import stack
from stack import connect, registry
from stack.connect import ConnectWorker
from stack.process import end
from stack.registry import Registry

PLUGINS: Final = ("debezium", "debezium-postgres", "registry-converters")
# a group and topics of its own, for a broker whose stack has a worker already: one group gives its connectors to any of its workers
OF_ITS_OWN: Final[Mapping[str, str]] = {
    "group.id": "cdc-registered",
    "config.storage.topic": "registered_configs",
    "offset.storage.topic": "registered_offsets",
    "status.storage.topic": "registered_statuses",
}


@contextmanager
def worker_and_registry(
    folder: Path, running: stack.Stack, *, name: str = "connect", plugins: tuple[str, ...] = PLUGINS
) -> Iterator[tuple[ConnectWorker, Registry]]:
    """A worker with Avro's converters, and the registry that they ask. They start beside each other."""
    if running.kafka is None:
        raise AssertionError("the stack has no Kafka")
    more = {**registry.WORKER, **OF_ITS_OWN}
    worker = connect.start_connect(folder, running.logs, running.kafka.bootstrap, more=more, plugins=plugins, name=name)
    try:
        schemas = registry.start_registry(folder / "registry", running.logs)
        try:
            yield connect.wait_ready(worker), schemas
        finally:
            end(schemas.child)
    finally:
        end(worker.child)
