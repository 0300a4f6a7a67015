"""Strategy `restart`: the source still has everything, so the connector is started again, once."""

from __future__ import annotations

from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.flows.run import Facts, Run, step

RUNNING_SECONDS = 60.0
STILL = frozenset({"STOPPED", "PAUSED"})


@step("restart_connector")
def restart(run: Run) -> Facts:
    """Start a failed connector again, or resume one that a person stopped; done when all its tasks run.

    Never twice: what fails again has a lasting reason. Raises DeadlineError with the last state and reason.
    """
    name, connector = run.pipeline.connector.name, run.clients.connector
    before = connector.facts(name)
    if run.clients.control.state().recovery:
        raise ConnectorError(
            "a recovery is open: its connector is not restarted", where=run.where, todo="Finish the recovery."
        )
    if before.state in STILL:
        connector.resume(name)
    else:
        connector.restart(name)

    def probe() -> bool:
        status = connector.facts(name)
        if status.state == "RUNNING" and status.tasks and all(task.state == "RUNNING" for task in status.tasks):
            return True
        reasons = [task.trace.strip().splitlines()[0][:300] for task in status.tasks if task.trace.strip()]
        raise NotYet(f"{status.state}, tasks {[task.state for task in status.tasks]} {' '.join(reasons)}".strip())

    poll_until(probe, timeout=RUNNING_SECONDS, what=f"connector {name} and its tasks to be RUNNING after the restart")
    return {"connector": name, "state_before": before.state, "state": "RUNNING"}
