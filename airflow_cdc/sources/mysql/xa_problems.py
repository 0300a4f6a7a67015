"""The diagnosis's row about XA transactions that were rolled back, for every make that sends their rows at PREPARE."""

from __future__ import annotations

from airflow_cdc.core.observation import ControlFacts
from airflow_cdc.core.problem import WARNING, AnyCase, Evidence, Problem
from airflow_cdc.core.xa import rollback_doubt
from airflow_cdc.decisions.diagnosis.evidence import server_evidence


def xa_rolled_back(case: AnyCase) -> Evidence | None:
    """Rows of a rolled back XA transaction may be in the sink: they were sent at its PREPARE (INV 32)."""
    source, control = case.source, case.seen.control
    if source is None or not isinstance(control, ControlFacts):
        return None
    doubts = {name: rollback_doubt(before, source.xa) for name, before in control.compared_xa.items()}
    shown = {f"since the last comparison of {name}": why for name, why in doubts.items() if why}
    return server_evidence(case, shown) if shown else None


XA_ROLLED_BACK = Problem(
    "XA_ROLLED_BACK",
    72,
    "XA transactions were rolled back after their rows may have been sent: such rows may be in the sink.",
    xa_rolled_back,
    WARNING,
    on_request=("full_snapshot", "diff_repair"),
)
