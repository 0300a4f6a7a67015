"""What `airflow cdc init` asks about an Iceberg sink."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup


def keys(_name: str, answers: Answers) -> Sequence[Key]:
    """The keys under `sink`."""
    return (
        Key("catalog", answers["catalog"], "also the id of the Airflow connection that describes the catalog"),
        Key("namespace", answers["namespace"]),
        # the only one that the transport allows
        Key("writer", "connector" if answers["transport_kind"] == "direct" else "cdc_apply", "who writes the tables"),
    )


def connections(_name: str, answers: Answers) -> Sequence[NewConnection]:
    """The catalog's connection."""
    return (NewConnection(answers["catalog"], "iceberg_catalog", extra=answers["catalog_extra"] or "{}"),)


SETUP = Setup(
    (
        Question("catalog", "Iceberg catalog: the id of its Airflow connection", "lake"),
        Question(
            "catalog_extra",
            'Its PyIceberg properties as JSON (only if it is new), like {"type": "rest", "uri": "…"}',
            needed=False,
        ),
        Question("namespace", "Namespace of the sink tables (default: the pipeline's name)", as_pipeline=True),
    ),
    keys,
    connections,
)
