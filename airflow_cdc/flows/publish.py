"""Step 9: main moves to exactly the snapshot that was verified, by compare-and-set on the head it was built from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_cdc.core.errors import StaleHeadError, VerificationError
from airflow_cdc.flows import document
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.systems.letters import resolve_before


@step("publish", leased=True)
def publish(run: Run) -> Facts:
    """Publish every verified table; nothing is published before all are verified (policy `publish: all`).

    Safe to run again after a kill: what is already on main is seen there and passed over (INV 4).
    """
    open_doc = document.recovery(run)
    verified = open_doc.get("verified") or {}
    ready = _ready(run, open_doc["tables"], verified)
    published = dict(open_doc.get("published") or {})
    for table in ready:
        published[table] = _publish_one(run, open_doc, table, int(verified[table]["snapshot_id"]))
        document.patch(run, published=published)
    mirror(run, published)
    _resolve_letters(run, open_doc, published)
    if left := sorted(set(open_doc["tables"]) - set(published)):
        raise VerificationError(
            f"not published, because not MATCH: {', '.join(left)}", where=run.where, todo=_READ_REPORT
        )
    return {"published": published}


_READ_REPORT = "Read the report for the keys that differ; main is as it was. Clear the task verify to verify again."


def _ready(run: Run, tables: list[str], verified: Mapping[str, Any]) -> list[str]:
    good = [table for table in tables if verified.get(table, {}).get("verdict") == "MATCH"]
    bad = {table: verified.get(table, {}).get("verdict", "not verified") for table in tables if table not in good}
    if bad and run.pipeline.policy.publish == "all":
        worst = "MISMATCH" if "MISMATCH" in bad.values() else "INCONCLUSIVE"
        raise VerificationError(
            f"nothing is published: {', '.join(f'{table} is {verdict}' for table, verdict in bad.items())}",
            where=run.where,
            todo=_READ_REPORT,
            verdict=worst,
        )
    return good


def _publish_one(run: Run, open_doc: Facts, table: str, snapshot_id: int) -> int:
    lake, namespace, name = run.clients.lake, run.pipeline.sink.namespace, run.pipeline.sink_table(table)
    stage = lake.open_stage(namespace, name, open_doc["stages"][table]["label"])
    # if only compaction moved main in between, no row changed and the verified snapshot still says the truth
    try:
        lake.publish(stage, snapshot_id, stage.base_head, over_compaction=True)
    except StaleHeadError as error:
        error.todo = "Find out who writes to the table, then clear the task recover and all after it: it is read again."
        raise
    return snapshot_id


def _resolve_letters(run: Run, open_doc: Facts, published: Mapping[str, int]) -> None:
    """Events before the fence are never applied again: the rows of their keys were read anew with their table."""
    fence = open_doc.get("fence") or {}
    resolve_before(run.clients.lake, run.pipeline.name, dict.fromkeys(published, fence))


def mirror(run: Run, published: Iterable[str]) -> None:
    """Keep the newest stamps in the control table too: snapshot expiry may remove the stamped snapshot."""
    lake, namespace = run.clients.lake, run.pipeline.sink.namespace
    stamps = {table: lake.stamp(namespace, run.pipeline.sink_table(table)) for table in published}
    run.clients.control.mirror_stamps({table: stamp for table, stamp in stamps.items() if stamp})
