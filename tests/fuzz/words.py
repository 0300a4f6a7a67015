"""Texts of people and of other programs: logs, addresses, connections, pipelines.yaml, and what keeps secrets out of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import yaml
from airflow.sdk import Connection
from hypothesis import strategies as st

from airflow_cdc.config.registry import load_registry, read_each
from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.core.amounts import Limit, parse_duration
from airflow_cdc.core.endpoint import Address
from airflow_cdc.core.error_texts import match
from airflow_cdc.core.errors import ConfigError, UsageError
from airflow_cdc.core.secrets import mask_config, mask_text
from airflow_cdc.core.settings import DAY
from airflow_cdc.core.text import printable, root_cause, shown, trace_excerpt
from airflow_cdc.decisions.diagnosis.log_lines import entries
from airflow_cdc.decisions.diagnosis.pasted import explain
from airflow_cdc.hooks.base import CdcHook
from airflow_cdc.kinds import CONNECTORS, CONTROLS, SINKS, SOURCES, TRANSPORTS, all_texts, voices
from airflow_cdc.reports.store import connection_of, safe
from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint
from airflow_cdc.transports.kafka.registry import RegistryEndpoint
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint
from tests.fuzz.connectors import CONFIG
from tests.fuzz.mutate import documents, mutated_text, settings, texts
from tests.fuzz.parser import Parser, in_file
from tests.paths import ROOT
from tests.unit.conftest import REGISTRY
from tests.unit.fuzzing import made_by

DATA = ROOT / "tests" / "data"
PASTED = [
    part for part in re.split(r"^=== .*\n", (DATA / "pasted-texts.txt").read_text(), flags=re.MULTILINE) if part.strip()
]
FIELD = ["\n".join(one["log"]) for one in json.loads((DATA / "field-logs.json").read_text())]
LOGS = (*PASTED, *FIELD)
TEXTS, VOICES = all_texts(), voices()
ADDRESSES = (
    "http://u:p@host:8083/path", "https://host", "connect:8083", "https://user:a/b@host.example:9200/x?y=1#z", "http://[::1]:8081/apis/registry/v2",
)  # fmt: skip
SECRETS = (
    "ALTER USER 'a'@'%' IDENTIFIED WITH mysql_native_password BY 'it''s' -- ", 'x --password "a\\"b" --conn-uri postgres://u:p@h/d',
    'Authorization: Basic YWJj, {"password": "p\\"q", "sasl.jaas.config": "x password=\\"y\\";"}',
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "https://b.s3/x?X-Amz-Signature=ab12&sig=cd Cookie: a=b; c=d",
)  # fmt: skip
POLICY = {
    "approval": "always",
    "approval_timeout": "2h",
    "max_deletes": "1%",
    "hold": {"mode": "auto", "max": "2h"},
    "notify": ["ops"],
}
PIPELINES = yaml.safe_load(REGISTRY)
PIPELINES["pipelines"]["shop"] |= {
    "policy": POLICY,
    "backfill": {"shop.orders": {"column": "at", "origin": "2026-01-31", "interval": "1d"}},
}
KINDS = {
    kind.hook for wing in (SOURCES, CONNECTORS, TRANSPORTS, SINKS, CONTROLS) for kind in wing.values() if kind.hook
}
HOOKS: tuple[CdcHook[Any], ...] = tuple(made for hook in KINDS if isinstance(made := hook.load()("c"), CdcHook))
EXTRA = {
    "ssl_mode": "verify_identity", "ssl_ca": "/ca.pem", "connect_timeout": 10, "bootstrap.servers": "a:1,b:2", "url": ADDRESSES[0],
    "ssl": '{"ca": "/ca.pem"}', "verify": "true", "security.protocol": "SASL_SSL", "shards": 2, "management": ADDRESSES[1], "dialect": "postgres",
    "type": "sql", "uri": "sqlite:///x", "warehouse": "s3://b/c", "timeout": "30", "sql_gateway": ADDRESSES[2], "retry_for": 5, "vhost": "/",
}  # fmt: skip


def _endpoint(make: Callable[[str], Any]) -> Callable[[str], object]:
    def made(text: str) -> object:
        endpoint = make(text)
        return endpoint.where, repr(endpoint)

    return made


def _utf8(text: str) -> str:
    """As it is read from a file."""
    return text.encode("utf-8", "replace").decode()


def _each_pipeline(text: str) -> object:
    return list(read_each(text, "here").items())


def _connection(rng: Any) -> dict[str, Any]:
    extra = {name: value for name, value in EXTRA.items() if rng.random() < 0.4}
    for name in list(extra)[:2]:
        extra[name] = mutated_text(rng, [str(extra[name])], 300)
    fields: dict[str, Any] = {"host": rng.choice(ADDRESSES), "login": "u", "password": "p", "schema": "https"}
    name = rng.choice(sorted(fields))
    fields[name] = mutated_text(rng, [str(fields[name])], 300)
    text = json.dumps(extra)
    return {
        **fields,
        "port": rng.choice((None, 0, 1, 70_000)),
        "extra": text,
    }


def _endpoints(fields: dict[str, Any]) -> object:
    made = []
    for hook in HOOKS:
        try:
            made.append(hook.endpoint_of(Connection(conn_id="c", conn_type=hook.conn_type, **fields)))
        except ConfigError:
            continue
    return [one.where for one in made]


def _masked(text: str) -> object:
    masked = mask_text(text, ["s3cret-known"])
    assert "s3cret-known" not in masked
    return (
        masked,
        mask_config({"a": text, text[:80]: "b"}),
        shown(text),
        printable(text),
        trace_excerpt(text),
        root_cause(text),
    )


PARSERS = (
    Parser("log that is explained", lambda text: explain(TEXTS, VOICES, text), texts(*LOGS)),
    Parser("entries of a log", entries, texts(*LOGS)),
    Parser("message of a server", lambda text: match(TEXTS, text), texts(*LOGS)),
    Parser("text that is masked", _masked, texts(*SECRETS, *LOGS[:20], "x s3cret-known y")),
    Parser(
        "settings that are masked", mask_config, settings(CONFIG, {"database.password": "${file:/x:y}", "a.b": "c"})
    ),
    Parser("address", lambda text: Address.of(text, "x"), texts(*ADDRESSES), (ConfigError,)),
    Parser("address of Connect", _endpoint(ConnectEndpoint), texts(*ADDRESSES), (ConfigError,)),
    Parser("address of Flink", _endpoint(FlinkEndpoint), texts(*ADDRESSES), (ConfigError,)),
    Parser("address of OpenSearch", _endpoint(OpenSearchEndpoint), texts(*ADDRESSES), (ConfigError,)),
    Parser("address of a registry", _endpoint(RegistryEndpoint), texts(*ADDRESSES), (ConfigError,)),
    Parser(
        "address of RabbitMQ",
        _endpoint(lambda text: RabbitMqEndpoint(host="h", management=text)),
        texts(*ADDRESSES),
        (ConfigError,),
    ),
    Parser("connection of Airflow", _endpoints, made_by(_connection)),
    Parser(
        "pipelines.yaml", in_file(load_registry), texts(REGISTRY, yaml.safe_dump(PIPELINES)), (ConfigError, UsageError)
    ),
    Parser(
        "pipelines.yaml, odd values",
        in_file(load_registry),
        documents(PIPELINES).map(lambda value: yaml.safe_dump(value, allow_unicode=True)),
        (ConfigError, UsageError),
    ),
    Parser(
        "each pipeline of pipelines.yaml",
        _each_pipeline,
        texts(REGISTRY, yaml.safe_dump(PIPELINES)).map(_utf8),
        (ConfigError,),
    ),
    Parser("duration", parse_duration, texts("45s", "1h 30m", "86400", "1d"), (ConfigError,)),
    Parser("day", DAY.read, texts("2026-01-31", "", "20260131"), (ConfigError,)),
    Parser("limit", Limit.parse, texts("1%", "1000", "0.5 %"), (ConfigError,)),
    Parser("id of a run", safe, texts("manual__2026-11-28T02:00:00+00:00", "runs.json", "a=0123abcd") | st.text()),
    Parser(
        "folder of reports",
        connection_of,
        texts("s3://conn@bucket/reports", "abfs://c@a.dfs.core.windows.net/r", "/var/x"),
        (ValueError,),
    ),
)
