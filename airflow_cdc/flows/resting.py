"""A connector that rests for a repair, and continues afterwards from where it was, whatever happens to the repair."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from airflow_cdc.core.errors import ConnectorError, UnknownStateError
from airflow_cdc.core.position import Position
from airflow_cdc.flows.connector import RUNNING_SECONDS, STOP_SECONDS
from airflow_cdc.flows.offsets import committed, whole_transaction
from airflow_cdc.flows.run import Run

log = logging.getLogger("airflow_cdc.connector")

_RESTING: Final = "resting"


@contextmanager
def resting(run: Run) -> Iterator[Position]:
    """Stop the connector for the block, and start it again behind it; the block gets the position from which it continues.

    It is noted before the connector is stopped, so that a later try, or the end of the run, starts it again if we are
    killed (`started_again`). The pipeline's lease must be held. Raises ConnectorError for a connector that did not run:
    a repair does not start what somebody has stopped.
    """
    name, connector = run.pipeline.connector.name, run.clients.connector
    state = connector.state(name)
    if not state.running:
        raise ConnectorError(
            f"the connector is {state.state}, and a repair stops it only for a moment",
            where=run.where,
            todo=f"Ask `airflow cdc diagnose {run.pipeline.name}` why it does not run, and repair once it does.",
        )
    run.clients.control.ledger_set(run.run_id, _RESTING, name)
    try:
        connector.stop(name, timeout=STOP_SECONDS)
        whole_transaction(run)
        offset = committed(run)
        if offset is None or offset.position is None:
            raise UnknownStateError(
                "the connector has no offset, so nobody knows where it would continue",
                where=run.where,
                todo=f"Ask `airflow cdc diagnose {run.pipeline.name}`.",
            )
        yield offset.position
    finally:
        started_again(run)


def started_again(run: Run) -> bool:
    """Start the connector if it rests for this run, and see it run. Safe to run again.

    Not beside a recovery that was opened since: it has stopped the connector for itself, and starts it. Raises ConnectorError.
    """
    name, control = run.pipeline.connector.name, run.clients.control
    if not control.ledger_get(run.run_id).get(_RESTING):
        return False
    if (recovery := control.facts().recovery) is not None:
        log.warning("the connector is left to the recovery of run %s", recovery.run_id)
    else:
        run.clients.connector.resume(name)
        run.clients.connector.wait_running(name, timeout=RUNNING_SECONDS)
    control.ledger_set(run.run_id, _RESTING, "")
    return True
