"""Step 4, beside the chain: keep W from being purged and DDL out, as long as the recovery needs it (INV 10)."""

from __future__ import annotations

from collections.abc import Callable

from airflow_cdc.core.errors import CdcError
from airflow_cdc.flows import document
from airflow_cdc.flows.run import Facts, Run, now_iso, step

DONE_FIELDS = ("resumed_at",)


@step("hold_binlog")
def hold(run: Run, should_stop: Callable[[], bool]) -> Facts:
    """Hold the source's backup lock until the connector streams past W, the policy's limit, or `should_stop`.

    Never fails a recovery: a refused, unsupported or lost hold is said in the recovery and the chain goes on by
    checking W again instead.
    """
    policy = run.pipeline.policy.hold
    if policy.mode == "off":
        return _say(run, "off", "the policy says off")
    final = run.clients.source.hold(
        until=lambda: should_stop() or _released(run),
        max_seconds=policy.max,
        on_change=lambda state: _say(run, state.state, state.detail),
    )
    return _say(run, final.state, final.detail)


def _released(run: Run) -> bool:
    """The recovery is past the point that needs the hold, or is gone."""
    try:
        open_doc = document.recovery(run)
    except CdcError:
        return True
    return any(open_doc.get(name) for name in DONE_FIELDS)


def _say(run: Run, state: str, detail: str) -> Facts:
    said = {"state": state, "detail": detail, "since": now_iso()}
    try:
        document.patch(run, hold=said)
    except CdcError:
        said["detail"] = f"{detail} (the recovery is closed)"
    return said
