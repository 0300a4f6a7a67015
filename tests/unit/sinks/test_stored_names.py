"""Names that stand in tables, snapshots, documents and connectors which an earlier version wrote.

Renamed, they would not be found any more: a stamp would be lost, and with it the place from which a table goes on.
"""

from __future__ import annotations

import pytest

from airflow_cdc.connectors.debezium import connector
from airflow_cdc.control import document
from airflow_cdc.core import stamp
from airflow_cdc.decisions import abandon
from airflow_cdc.decisions.apply import applied, schema_change, start
from airflow_cdc.sinks.hudi import client as hudi
from airflow_cdc.sinks.iceberg import control, stage, staging

NAMES = {
    "cdc.epoch": stamp.EPOCH,
    "cdc.watermark": stamp.WATERMARK,
    "cdc.offsets": stamp.OFFSETS,
    "cdc.ledger": stamp.LEDGER,
    "cdc.base": stamp.BASE,
    "cdc.read_epoch": stamp.READ_EPOCH,
    "cdc.fingerprint": start.FINGERPRINT,
    "cdc.snapshot_at": start.SNAPSHOT_AT,
    "cdc.definition": schema_change.DEFINITION,
    "cdc.applied": applied.APPLIED,
    "cdc.published": hudi.PUBLISHED,
    "cdc.staging": staging.NOTE,
    "cdc.staging.reason": staging.REASON,
    "cdc.staging.asked": staging.ASKED,
    "cdc.staging.tried": staging.TRIED,
    "cdc.state": control.STATE,
    "cdc.stage.": stage.PROPERTY,
    "cdc.": stage.OWN,
    "cdc.detour.was.": connector.WAS,
    "closed": document.CLOSED,
    "writes": document.WRITES,
    "format": document.FORMAT,
    "xa": document.XA,
    "step:apply_changes": document.APPLY,
    "abandoned": abandon.ABANDONED,
}


@pytest.mark.parametrize(("stored", "name"), NAMES.items(), ids=NAMES)
def test_what_an_earlier_version_wrote_is_found_under_its_name(stored: str, name: str) -> None:
    assert name == stored


def test_the_stamps_own_names_are_told_from_those_of_others() -> None:
    assert stamp.OURS == "cdc."
    assert all(name.startswith(stamp.OURS) for name in NAMES if name.startswith("cdc"))
