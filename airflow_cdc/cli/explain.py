"""`airflow cdc explain`: what a log on stdin says went wrong, and the sentences of the runbook that help."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator

from airflow_cdc.cli.run import command, emit
from airflow_cdc.config import settings
from airflow_cdc.core.errors import UsageError
from airflow_cdc.decisions.diagnosis.pasted import UNNAMED, Finding
from airflow_cdc.decisions.diagnosis.pasted import explain as finding_of
from airflow_cdc.kinds import all_texts, voices
from airflow_cdc.links import runbook_url
from airflow_cdc.reports.runbook import first_aid

NOTE = "This is based on the text only. `airflow cdc diagnose PIPELINE` asks the servers."
BY_HAND = 'the page "My connector failed: first aid" says what to save and what not to do, without installing anything'
# a whole worker log may be piped in; what fails it stands at its end
LAST_CHARACTERS = 4_000_000


@command
def explain(args: Namespace) -> int:
    """1 a problem is named, 3 none is."""
    if sys.stdin.isatty():
        raise UsageError("there is no log to read", todo="Pipe one in: airflow cdc explain < connect.log")
    finding = finding_of(all_texts(), voices(), sys.stdin.read()[-LAST_CHARACTERS:])
    emit(args, to_json(finding), [{"what": what, "value": value} for what, value in _rows(finding)])
    return 3 if finding.leads.code == UNNAMED else 1


def to_json(finding: Finding) -> dict[str, object]:
    """The finding for programs."""
    leads = finding.leads
    return {
        "code": leads.code,
        "meaning": leads.meaning,
        "line": leads.line,
        "engine": finding.engine,
        "otherwise": [{"code": code, "meaning": meaning} for code, meaning in leads.otherwise],
        "ask": leads.ask,
        "over": [{"code": one.code, "line": one.line} for one in finding.over],
        "beside": [{"code": one.code, "line": one.line} for one in finding.beside],
        "healed": finding.healed,
        "do": first_aid(leads.code),
        "from_text_only": True,
        "note": NOTE,
        "by_hand": BY_HAND,
        "runbook": _runbook(leads.code),
    }


def _rows(finding: Finding) -> Iterator[tuple[str, str]]:
    leads = finding.leads
    if leads.code == UNNAMED:
        yield "result", f"not recognised: {leads.meaning}"
    else:
        yield "code", leads.code
        yield "meaning", leads.meaning
        yield "line", leads.line
    if finding.engine:
        yield "written by", finding.engine
    if finding.healed:
        yield "after it", "the log shows that the connector read again"
    for code, meaning in leads.otherwise:
        yield "or", f"{code}: {meaning}"
    if leads.ask:
        yield "to decide, ask", leads.ask
    for one in finding.beside:
        yield "also in the text", f"{one.code}: {one.line}"
    for one in finding.over:
        yield "before, and over", f"{one.code}: {one.line}"
    if do := first_aid(leads.code):
        yield "do", do
    yield "by hand", BY_HAND
    if link := _runbook(leads.code):
        yield "runbook", link
    yield "note", NOTE


def _runbook(code: str) -> str:
    """The page of Airflow with the runbook; "" where nobody said at which address Airflow is, as before it runs."""
    return runbook_url(code) if settings.has_airflow_url() and code != UNNAMED else ""
