"""`airflow cdc forecast` and `hold`: what will go wrong when, and putting it off."""

from __future__ import annotations

import sys
from argparse import Namespace
from threading import Event

from airflow_cdc.cli.interrupt import ctrl_c, until_over
from airflow_cdc.cli.reading import ANSWER_WITHIN_S, read_soon
from airflow_cdc.cli.run import command, emit, pairs, run_of
from airflow_cdc.core.hold import HoldState
from airflow_cdc.flows.forecast import forecast_pipeline
from airflow_cdc.flows.hold import hold_by_hand


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
    with ctrl_c() as over:
        state = until_over(over, lambda: _held(args, over))
    emit(args, state.to_json(), pairs(state.to_json()))
    return 0 if state.blocks_purge and (state.held or state.held_s >= args.seconds) else 1


def _held(args: Namespace, over: Event) -> HoldState:
    return hold_by_hand(run_of(args), args.seconds, lambda line: print(line, file=sys.stderr, flush=True), over)
