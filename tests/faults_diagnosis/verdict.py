"""What is left after the plan was carried out: the product's own verdict, then an independent comparison of every row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stack.shop.check import check
from tests.faults_diagnosis.subject import TABLES, Subject

if TYPE_CHECKING:
    from tests.faults_diagnosis.world import Helper

MATCH, REFUSED, NOT_APPLIED = "MATCH", "refused", "not applied"
NOTHING = "none"


def after_recovery(subject: Subject, recoverer: Helper, plan: str) -> dict[str, Any]:
    """Carry the plan out, write on, apply what comes, and compare. A refused plan does nothing, and neither do we."""
    if plan == REFUSED:
        return {"verdict": None, "verdict_reason": "nothing is done"}
    if subject.version.mariadb:
        return {"verdict": NOT_APPLIED, "verdict_reason": "recoveries of MariaDB are not made here: see make systems"}
    own = recoverer.ask(request(subject, "recover", plan)) if plan != NOTHING else {}
    if "error" in own:
        return {"verdict": "FAILED", "verdict_reason": own["error"]}
    subject.write_on()
    subject.catch_up()
    applied = recoverer.ask(request(subject, "apply"))
    if "error" in applied:
        return {"verdict": "FAILED", "verdict_reason": f"apply: {applied['error']}"}
    wrong = mismatch(subject)
    return {"verdict": wrong or MATCH, "verdict_reason": f"the recovery says {own.get('verdict', 'nothing')}"}


def request(subject: Subject, do: str, strategy: str = "") -> str:
    """One line for the recoverer."""
    settings = subject.world.settings(subject.name, subject.server, f"{subject.name}-{do}")
    return json.dumps({"settings": settings, "do": do, "strategy": strategy})


def mismatch(subject: Subject) -> str:
    """What the independent check finds wrong, or ""."""
    server = subject.mysql
    admin = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    found = check(admin, subject.world.lake_properties, subject.name, subject.name, list(TABLES))
    return "; ".join(f"{c.table}: {c.missing} missing, {c.ghosts} ghosts" for c in found if not c.equal)
