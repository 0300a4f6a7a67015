"""The buttons for a pipeline's problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.decisions.diagnosis.strategy import STRATEGIES
from airflow_cdc.names import ABANDON_DAG_ID, RECOVERY_DAG_ID, SHARED_DAG_IDS
from airflow_cdc.plugin.colour import NOT_OBSERVED, RECOVERED, SINK_DIFFERS
from airflow_cdc.plugin.running import RunningRun

RECOVERY_OPEN = "RECOVERY_OPEN"
RECOVER_FORM, REPAIR_FORM = "recover", "repair"


@dataclass(frozen=True, slots=True)
class Action:
    """A button. It opens a form of this page (`form`), or a DAG in Airflow, one of its runs, or that run's question.
    Without any of these it opens the runbook's section about the code.
    """

    label: str
    why: str
    dag_id: str = ""
    run_id: str = ""
    form: str = ""
    asks: bool = False

    def of_pipeline(self, name: str) -> Action:
        """The same button for a pipeline with DAGs of its own."""
        return replace(self, dag_id=f"{self.dag_id}__{name}") if self.dag_id in SHARED_DAG_IDS else self


_BY_CODE: Mapping[str, Action] = {
    SINK_DIFFERS: Action(
        "Repair the rows…", "A check found rows that differ; only those are written.", form=REPAIR_FORM
    ),
    NOT_OBSERVED: Action(
        "Diagnose…", "The recovery diagnoses first, and asks before it changes anything.", form=RECOVER_FORM
    ),
    RECOVERED: Action("Diagnose again…", "The pipeline has not been diagnosed since the run ended.", form=RECOVER_FORM),
    RECOVERY_OPEN: Action("Follow the recovery", "It runs, waits for an answer, or has failed.", RECOVERY_DAG_ID),
    "UNKNOWN": Action("See the runbook", "Nothing is done while something cannot be read."),
    "CONNECTOR_STOPPED": Action(
        "What to do", "Somebody stopped the connector; the person who did should start it again."
    ),
    "SINK_BEHIND": Action("What to do", "The changes wait in the topics: apply is paused, failing, or stopped by DDL."),
}
_BY_STRATEGY: Mapping[str, Action] = {
    "restart": Action("Restart the connector…", STRATEGIES["restart"].when, form=RECOVER_FORM),
    "none": Action("What to change", "No row has to be read again: a setting is wrong, or a limit is near."),
}
_RECOVER = Action("Recover…", "The cheapest safe plan is shown before anything is changed.", form=RECOVER_FORM)
_BY_HAND = Action(
    "What to do", "This pipeline has no sink, so no run can repair it: the runbook says what to do by hand."
)
_GIVE_UP = Action("Abandon…", "For a recovery that cannot finish; main is not touched.", ABANDON_DAG_ID)


_ANSWER = Action("Approve or reject…", "A run waits for your answer; without one in time, nothing is done.", asks=True)
_FOLLOW = Action("Follow the run", "A run is working on this pipeline.")


def actions_for(
    code: str, diagnosis: Diagnosis | None, *, has_sink: bool = True, running: RunningRun | None = None
) -> tuple[Action, ...]:
    """The buttons of a pipeline with this `code`, the most suitable first; none if it is healthy and idle."""
    if running is not None:
        others = (_GIVE_UP,) if code == RECOVERY_OPEN else ()
        action = _ANSWER if running.asks else _FOLLOW
        return (replace(action, dag_id=running.dag_id, run_id=running.run_id), *others)
    actions = _with_sink(code, diagnosis)
    if has_sink or not actions or actions[0] == _BY_STRATEGY["restart"]:
        return actions
    return (actions[0] if not (actions[0].dag_id or actions[0].form) else _BY_HAND,)


def _with_sink(code: str, diagnosis: Diagnosis | None) -> tuple[Action, ...]:
    if code == "HEALTHY":
        return ()
    if code == RECOVERY_OPEN:
        return (_following(diagnosis), _GIVE_UP)
    return (_BY_CODE.get(code) or _of_strategy(diagnosis),)


def _following(diagnosis: Diagnosis | None) -> Action:
    """The button to the open run, if the diagnosis names it (evidence is "value [where, when]")."""
    run_id = (diagnosis.evidence.get("run_id", "") if diagnosis else "").partition(" [")[0]
    return replace(_BY_CODE[RECOVERY_OPEN], run_id=run_id)


def _of_strategy(diagnosis: Diagnosis | None) -> Action:
    """The button for the problem's cheapest strategy; without a strategy, only a setting is wrong."""
    return _BY_STRATEGY.get(next(iter(diagnosis.strategies if diagnosis else ()), "none"), _RECOVER)
