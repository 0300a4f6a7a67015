"""Watermarks of MySQL servers, as tests look into them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import mysql_position


def gtids_of(watermark: Watermark) -> GtidSet:
    """The set of a GTID server's watermark."""
    gtids = mysql_position(watermark.position).gtids
    assert gtids is not None
    return gtids


def moved(watermark: Watermark, **changes: Any) -> Watermark:
    """`watermark` at another place: file, pos, gtids, server_id."""
    return replace(watermark, position=replace(mysql_position(watermark.position), **changes))
