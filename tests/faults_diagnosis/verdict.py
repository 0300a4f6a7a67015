"""What is left after the plan was carried out: the product's own verdict, then an independent comparison of every row."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.faults_diagnosis.subject import Subject

if TYPE_CHECKING:
    from tests.faults_diagnosis.world import Helper

MATCH, REFUSED, NOT_APPLIED = "MATCH", "refused", "not applied"
NOTHING = "none"


def after_recovery(
    subject: Subject, recoverer: Helper, plan: str, put_right: Callable[[Subject], None] | None = None
) -> dict[str, Any]:
    """Carry the plan out, write on, apply what comes, and compare. A refused plan does nothing, and neither do we.

    With `put_right` the recovery has to stop first and ask for it; then it is finished.
    """
    if plan == REFUSED:
        return {"verdict": None, "verdict_reason": "nothing is done"}
    if why := subject.not_recovered:
        return {"verdict": NOT_APPLIED, "verdict_reason": why}
    own = _recovered(subject, recoverer, plan) if plan != NOTHING else {}
    if put_right is not None:
        if "error" not in own:
            return {"verdict": "FAILED", "verdict_reason": "the recovery did not stop"}
        asked_for = own["error"]
        put_right(subject)
        own = {**_recovered(subject, recoverer, "finish"), "asked_for": asked_for}
    if "error" in own:
        return {"verdict": "FAILED", "verdict_reason": own["error"]}
    subject.write_on()
    subject.catch_up()
    applied = recoverer.ask(request(subject, "apply"))
    if "error" in applied:
        return {"verdict": "FAILED", "verdict_reason": f"apply: {applied['error']}"}
    wrong = subject.mismatch()
    return {
        "verdict": wrong or MATCH,
        "verdict_reason": f"the recovery says {own.get('verdict', 'nothing')}",
        **_asked(own),
    }


def _recovered(subject: Subject, recoverer: Helper, strategy: str) -> dict[str, Any]:
    with subject.meanwhile():
        return recoverer.ask(request(subject, "recover", strategy))


def _asked(own: dict[str, Any]) -> dict[str, Any]:
    return {"asked_for": own["asked_for"]} if "asked_for" in own else {}


def request(subject: Subject, do: str, strategy: str = "") -> str:
    """One line for the recoverer."""
    settings = subject.world.settings(subject.name, subject.server, f"{subject.name}-{do}")
    return json.dumps({"settings": settings, "do": do, "strategy": strategy})
