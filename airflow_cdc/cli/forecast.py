"""`airflow cdc forecast`, `hold` and `explain`: what will go wrong when, putting it off, and what a log says went wrong."""

from __future__ import annotations

import sys
from argparse import Namespace

from airflow_cdc.cli.reading import ANSWER_WITHIN_S, read_soon
from airflow_cdc.cli.run import command, emit, pairs, run_of
from airflow_cdc.core.error_texts import UNNAMED
from airflow_cdc.core.error_texts import explain as explanation_of
from airflow_cdc.core.errors import UsageError
from airflow_cdc.flows.forecast import forecast_pipeline
from airflow_cdc.flows.hold import hold_by_hand
from airflow_cdc.kinds import all_texts
from airflow_cdc.links import runbook_url

NOTE = "This is based on the text only. `airflow cdc diagnose PIPELINE` asks the servers."
# a whole worker log may be piped in; what fails it stands at its end
LAST_CHARACTERS = 4_000_000


@command
def forecast(args: Namespace) -> int:
    """0 nothing to fear, 1 below the policy's warning or the snapshot does not fit, 3 nothing could be read."""
    run = run_of(args, answer_within=ANSWER_WITHIN_S)
    forecasts = read_soon(lambda: forecast_pipeline(run), where=run.where)
    emit(args, forecasts.to_json(), pairs(forecasts.to_json()))
    return forecasts.exit_status


@command
def hold(args: Namespace) -> int:
    """0 the log was held until Ctrl-C or --seconds, 1 it could not be held, or had to be let go before."""
    state = hold_by_hand(run_of(args), args.seconds, lambda line: print(line, file=sys.stderr))
    emit(args, state.to_json(), pairs(state.to_json()))
    return 0 if state.blocks_purge and (state.held or state.held_s >= args.seconds) else 1


@command
def explain(args: Namespace) -> int:
    """1 a problem is named, 3 none is."""
    if sys.stdin.isatty():
        raise UsageError("there is no log to read", todo="Pipe one in: airflow cdc explain < connect.log")
    explanation = explanation_of(all_texts(), sys.stdin.read()[-LAST_CHARACTERS:])
    data = {
        "code": explanation.code,
        "meaning": explanation.meaning,
        "line": explanation.line,
        "from_text_only": True,
        "note": NOTE,
        "runbook": runbook_url(explanation.code),
    }
    emit(args, data, pairs(data))
    return 3 if explanation.code == UNNAMED else 1
