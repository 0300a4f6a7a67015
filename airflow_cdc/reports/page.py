"""The report as a page for people: one HTML file that loads nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from airflow_cdc.core.amounts import span
from airflow_cdc.core.report import RecoveryReport
from airflow_cdc.decisions.compare.row_diff import RowPair
from airflow_cdc.reports.bars import time_bars

CELLS = 600


Rows = Mapping[str, Sequence[RowPair]]


def render_html(report: RecoveryReport, rows: Rows | None = None) -> str:
    """The report as a self-contained page, light or dark like the reader's system. All values are escaped."""
    return environment().get_template("report.html.j2").render(**report_values(report, rows or {}))


def report_values(report: RecoveryReport, rows: Rows) -> dict[str, object]:
    """The values for the report's template; `rows`: table → both rows of the first keys that differ."""
    return {
        "report": report,
        "rows": rows,
        "total": sum(step.seconds for step in report.steps),
        "bars": time_bars(report.steps),
        "heat": {table.table: heat_map(table.leaf_map) for table in report.tables},
    }


def heat_map(leaf_map: str, cells: int = CELLS) -> Sequence[tuple[int, int, bool]]:
    """At most `cells` squares (first leaf, last leaf, whether one of them was examined), in the leaves' order."""
    width = max(1, -(-len(leaf_map) // cells))
    parts = (leaf_map[at : at + width] for at in range(0, len(leaf_map), width))
    return [(at * width, at * width + len(part) - 1, "~" in part) for at, part in enumerate(parts)]


@cache
def environment() -> Environment:
    """The templates of every page, with autoescape."""
    jinja = Environment(
        loader=PackageLoader("airflow_cdc", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {"number": _number, "json": _json, "seconds": _seconds, "span": span}
    return jinja


def _number(value: float) -> str:
    return f"{value:,}".replace(",", "\u202f")


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 120 else f"{int(value) // 60} min {int(value) % 60} s"
