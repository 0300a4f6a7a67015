"""`airflow cdc init --pipeline …`: one pipeline from flags or a few questions, with its connections, checked at once."""

from __future__ import annotations

import getpass
import json
import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_cdc.config.registry import load_registry
from airflow_cdc.core.errors import ConfigError, UsageError

PASSWORD_ENV = "CDC_MYSQL_PASSWORD"  # noqa: S105 - the name of a variable
MYSQL_PORT = 3306


@dataclass(frozen=True, slots=True)
class Question:
    """One answer that a pipeline needs: the flag's name, what a person is asked, and what Enter stands for."""

    key: str
    text: str
    default: str = ""


QUESTIONS: tuple[Question, ...] = (
    Question("mysql", "MySQL server, host:port"),
    Question("mysql_user", "MySQL user", "cdc"),
    Question("tables", "Tables, as schema.table, comma-separated"),
    Question("connect", "Kafka Connect's REST address", "http://localhost:8083"),
    Question("connector", "Name of the Debezium connector there"),
    Question("kafka", "Kafka's bootstrap servers", "localhost:9092"),
    Question("catalog", "Iceberg catalog: the id of its Airflow connection", "lake"),
    Question(
        "catalog_extra", 'Its PyIceberg properties as JSON (only if it is new), like {"type": "rest", "uri": "…"}'
    ),
    Question("namespace", "Namespace of the sink tables"),
    Question("spark", "Spark master (only if spark_default is new)", "local[*]"),
)
OPTIONAL = frozenset({"catalog_extra"})


def answers(args: Namespace) -> dict[str, str]:
    """The flags, and what a person at a terminal answers for those that are missing. Raises UsageError without one."""
    given = {question.key: getattr(args, question.key) for question in QUESTIONS}
    given["namespace"] = given["namespace"] or args.pipeline
    missing = [question for question in QUESTIONS if not given[question.key]]
    if sys.stdin.isatty():
        asked = {question.key: _ask(question) for question in missing}
    else:
        asked = {question.key: question.default for question in missing}
    found = {**given, **asked}
    if absent := [key for key, value in found.items() if not value and key not in OPTIONAL]:
        flags = ", ".join(f"--{key.replace('_', '-')}" for key in absent)
        raise UsageError(f"not enough is known about pipeline {args.pipeline}", todo=f"Add {flags}.")
    return found


def _ask(question: Question) -> str:
    shown = f" [{question.default}]" if question.default else ""
    return input(f"{question.text}{shown}: ").strip() or question.default


def add_to_registry(path: Path, name: str, told: Mapping[str, str], template: str) -> str:
    """Write the pipeline to the registry, with its comments; the file is as it was if the result would not be valid."""
    block = _block(name, told, template)
    before = path.read_text() if path.exists() else None
    if before is not None and name in load_registry(path):
        raise UsageError(f"there is a pipeline {name!r} already", where=str(path), todo="Edit it there.")
    head = template[: template.index("  shop:")] if before is None else before.rstrip("\n") + "\n\n"
    path.write_text(head + block)
    try:
        load_registry(path)
    except ConfigError:
        path.unlink() if before is None else path.write_text(before)
        raise
    return f"{path} ({'written' if before is None else 'pipeline added'})"


def _block(name: str, told: Mapping[str, str], template: str) -> str:
    tables = "".join(f"        - {table.strip()}\n" for table in told["tables"].split(",") if table.strip())
    changes = {
        "  shop: ": f"  {name}: ",
        "cdc_apply__shop": f"cdc_apply__{name}",
        "conn_id: shop_": f"conn_id: {name}_",
        "        - shop.customers\n        - shop.orders\n": tables,
        "name: shop ": f"name: {told['connector']} ",
        "catalog: lake ": f"catalog: {told['catalog']} ",
        "namespace: shop\n": f"namespace: {told['namespace']}\n",
        "notify: [ops]": "notify: []",
    }
    block = template[template.index("  shop:") :]
    for old, new in changes.items():
        block = block.replace(old, new)
    return block


def connections(name: str, told: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The Airflow connections that the pipeline names, by id. Raises UsageError for an address that is none."""
    host, _, port = told["mysql"].partition(":")
    if port and not port.isdigit():
        raise UsageError(f"{told['mysql']!r} is not host:port", where="--mysql", todo="Write one like db.example:3306.")
    return {
        f"{name}_mysql": {
            "conn_type": "cdc_mysql",
            "host": host,
            "port": int(port or MYSQL_PORT),
            "login": told["mysql_user"],
            "password": _password(),
        },
        f"{name}_connect": {"conn_type": "kafka_connect", "host": told["connect"]},
        f"{name}_kafka": {"conn_type": "cdc_kafka", "extra": json.dumps({"bootstrap.servers": told["kafka"]})},
        told["catalog"]: {"conn_type": "iceberg_catalog", "extra": told["catalog_extra"] or "{}"},
        "spark_default": {"conn_type": "spark", "host": told["spark"]},
    }


def _password() -> str:
    """Never a flag: those show in ps and in the shell's history."""
    if PASSWORD_ENV in os.environ:
        return os.environ[PASSWORD_ENV]
    if not sys.stdin.isatty():
        raise UsageError("the password of the MySQL user is not known", todo=f"Put it in the variable {PASSWORD_ENV}.")
    return getpass.getpass("Its password: ")


def create(wanted: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Create the connections in Airflow's database; one that exists, there or elsewhere, is left as it is."""
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    missing = [conn_id for conn_id in wanted if not _exists(conn_id)]
    with create_session() as session:
        session.add_all(Connection(conn_id=conn_id, **wanted[conn_id]) for conn_id in missing)
    return {f"connection {conn_id}": "created" if conn_id in missing else "exists, left as it is" for conn_id in wanted}


def _exists(conn_id: str) -> bool:
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return False
    return True


def keys() -> Sequence[str]:
    """The names of the answers, for the command's flags."""
    return [question.key for question in QUESTIONS]
