"""The report as a page a person reads: one HTML file, nothing fetched from anywhere."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

from jinja2 import Environment, StrictUndefined, Template

from airflow_cdc.core.report import RecoveryReport

_TEMPLATE = "report.html.j2"


def render_html(report: RecoveryReport) -> str:
    """The report as a self-contained page, light or dark as the reader's system is. All values are escaped."""
    slowest = max((step.seconds for step in report.steps), default=0.0)
    return _template().render(
        report=report,
        value=report.to_json(),
        total=sum(step.seconds for step in report.steps),
        slowest=slowest or 1.0,
    )


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = _number
    environment.filters["json"] = _json
    environment.filters["seconds"] = _seconds
    text = resources.files("airflow_cdc").joinpath("templates", _TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(text)


def _number(value: float) -> str:
    return f"{value:,}".replace(",", "\u202f")


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 120 else f"{int(value) // 60} min {int(value) % 60} s"
