"""`airflow cdc abandon`: give up an open recovery, or some of its tables."""

from __future__ import annotations

from argparse import Namespace

from airflow_cdc.cli.run import command, emit, pairs, run_of
from airflow_cdc.flows import abandon as abandoning


@command
def abandon(args: Namespace) -> int:
    """0 once it is given up. The connector is left as it is; what is printed says how that is."""
    from airflow_cdc.cli.permission import changer  # brings in Airflow's web server: not for commands that only read

    run = run_of(args)
    done = abandoning.abandon(run, args.table or (), who=changer(run.pipeline), reason=args.reason)
    emit(args, done, pairs(done))
    return 0
