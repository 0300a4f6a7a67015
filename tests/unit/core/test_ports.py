"""Each system has the shape of its port: the methods, and every parameter a caller of the port may name."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from airflow_cdc.core import ports

IMPLEMENTATIONS = [
    (ports.SourcePort, "airflow_cdc.sources.mysql.client", "MySqlSource"),
    (ports.ConnectorPort, "airflow_cdc.connectors.debezium.connector", "DebeziumConnector"),
    (ports.TransportPort, "airflow_cdc.transports.kafka.client", "KafkaTransport"),
    (ports.ControlStore, "airflow_cdc.sinks.iceberg.control", "IcebergControlStore"),
    (ports.ControlPort, "airflow_cdc.control.control", "Control"),
]
METHODS = [
    (port, module, cls, name)
    for port, module, cls in IMPLEMENTATIONS
    for name in vars(port)
    if not name.startswith("_") and callable(getattr(port, name))
]


@pytest.mark.parametrize(("port", "module", "cls", "method"), METHODS, ids=[f"{c}.{m}" for _, _, c, m in METHODS])
def test_a_system_fits_its_port(port: type, module: str, cls: str, method: str) -> None:
    wanted = inspect.signature(getattr(port, method)).parameters
    given = inspect.signature(getattr(getattr(import_module(module), cls), method)).parameters
    assert [p for p in wanted if p not in given] == []
    unnamed = [p for p in given.values() if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    assert [p.name for p in unnamed if p.name not in wanted] == []


def test_every_port_is_held_against_a_system() -> None:
    classes = {v for v in vars(ports).values() if inspect.isclass(v) and v.__module__ == ports.__name__}
    declared = {one for one in classes if getattr(one, "_is_protocol", False)}
    assert declared == {port for port, _, _ in IMPLEMENTATIONS}
