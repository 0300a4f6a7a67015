"""Whether a catalog can hold stages: what is known of it, and a trial with a small table before a recovery begins."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import CdcError, SinkError, UnknownStateError
from airflow_cdc.sinks.iceberg.catalog import commit, describe
from airflow_cdc.sinks.iceberg.snapshots import empty_commit
from airflow_cdc.sinks.iceberg.staging import WORDS, Noted, Staging, is_refusal, note_trial, noted_way, unfit

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_cdc.sinks.iceberg.client import Lake

_NAMESPACE, _COLUMNS, _LABEL = "cdc_control", (("note", "string"),), "trial_1"
_ENCRYPTED, _SIGNING = "encryption.key-id", "s3.remote-signing-enabled"
# what a catalog hands out with a table that it vends credentials for
_VENDED = ("s3.session-token", "gcs.oauth2.token", "adls.sas-token", "adls.connection-string", "s3.signer.uri")


@dataclass(frozen=True, slots=True)
class StagingFacts:
    """How stages are made, in words, and a doubt about it with what to do ("" if there is none)."""

    how: str
    doubt: str = ""
    todo: str = ""


def try_stage(lake: Lake) -> str:
    """How stages are made. The first time, one of a small table is made, published and dropped.

    Raises SinkError if the catalog can hold none.
    """
    noted = noted_way(lake.catalog, lake.asked_way)
    if noted is None or not noted.tried:
        _rehearse(lake)
        note_trial(lake.catalog, lake.asked_way)
        noted = noted_way(lake.catalog, lake.asked_way)
    return str(noted or "the catalog holds stages")


def _rehearse(lake: Lake) -> None:
    table = f"trial_{uuid.uuid4().hex[:12]}"
    lake.ensure_table(_NAMESPACE, table, _COLUMNS, format_version=2)
    try:
        _publish_nothing(lake, table)
    except CdcError:
        raise
    except Exception as error:
        if is_refusal(error):
            raise unfit(lake.where, describe(error)) from None
        text, todo = f"a stage could not be tried: {describe(error)}", "Check the catalog, and run the step again."
        raise UnknownStateError(text, where=lake.where, todo=todo) from None
    finally:
        with suppress(Exception):
            lake.catalog.drop_table((_NAMESPACE, table))


def _publish_nothing(lake: Lake, table: str) -> None:
    stage = lake.stage(_NAMESPACE, table, _LABEL)
    try:
        commit(lake.catalog, stage.identifier, lambda one: empty_commit(one, {}), what="a commit of a stage")
        try:
            lake.stage_chain(stage)
        except SinkError:
            raise unfit(
                lake.where, "it keeps only a table's newest snapshot, so nothing leads to the stage's base"
            ) from None
        lake.publish(stage, lake.stage_head(stage), stage.base_head)
    finally:
        lake.drop_stage(stage)


def staging_facts(lake: Lake, namespace: str) -> StagingFacts:
    """What is known without a change: the note of the first stage, and what the catalog hands out with its tables."""
    noted = noted_way(lake.catalog, lake.asked_way)
    return StagingFacts(_how(lake.asked_way, noted), *_doubt(lake, namespace, noted))


def _how(asked: Staging, noted: Noted | None) -> str:
    if asked is not Staging.AUTO:
        return f"stages are made {WORDS[asked]}, as pipelines.yaml says" + ("" if noted else "; not tried yet")
    return str(
        noted or "not tried yet: the first recovery finds out how the catalog holds stages, before it changes anything"
    )


def _doubt(lake: Lake, namespace: str, noted: Noted | None) -> tuple[str, str]:
    """What the catalog's tables have that was never tested: encryption, or access for one table's location."""
    table = _any_table(lake, namespace)
    if table is not None and _ENCRYPTED in table.properties:
        text = f"{'.'.join(table.name())} is encrypted ({_ENCRYPTED}): stages of such tables cannot be published"
        return text, "Mirror into tables without it; the object store's own encryption needs nothing."
    signs = dict(lake.catalog.properties).get(_SIGNING, "").lower() == "true"
    keys = {_SIGNING} if signs else {key for key in (table.config if table else ()) if key.startswith(_VENDED)}
    if not keys:
        return "", ""
    text = f"the catalog gives access to files table by table ({', '.join(sorted(keys))}), which was not tested"
    if Staging.BESIDE in {lake.asked_way, noted and noted.way}:
        text += "; a stage in a table of its own reads and publishes files of two locations"
    return text, "Give Spark and readers credentials of their own for the warehouse, or try a recovery on a copy first."


def _any_table(lake: Lake, namespace: str) -> Table | None:
    with suppress(Exception):
        for identifier in lake.catalog.list_tables(tuple(namespace.split("."))):
            return lake.catalog.load_table(identifier)
    return None
