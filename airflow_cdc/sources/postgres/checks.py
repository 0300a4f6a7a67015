"""The doctor's checks of a PostgreSQL server: its identity, what logical decoding needs, the tables, and privileges."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_cdc.core.check import Check
from airflow_cdc.sources.postgres.facts import VIA_ROOT, PgFacts
from airflow_cdc.sources.postgres.problems import identity_fault


def checks(facts: PgFacts, subject: str, unreadable: str) -> Iterator[Check]:
    """The checks, one after the other. `unreadable`: why no recovery can read this source; "" if one can."""
    yield Check(
        subject,
        "source",
        "ok",
        f"PostgreSQL {facts.version}, system {facts.log.system_id}, timeline {facts.log.timeline}",
    )
    if unreadable:
        yield Check(subject, "recovery", "warn", unreadable, "Read the tables again by the connector's own snapshot.")
    faults = facts.log_faults
    if "wal_level" not in faults:
        yield Check(subject, "wal_level", "ok", facts.settings.get("wal_level", ""))
    for name, fault in faults.items():
        yield Check(subject, name, "bad", fault, _way_out(facts, name))
    yield from _slot(facts, subject)
    yield from _publication(facts, subject)
    for table in facts.tables.values():
        if why := identity_fault(table):
            todo = f"ALTER TABLE {table.name} REPLICA IDENTITY FULL, or give it a primary key."
            yield Check(subject, f"replica identity of {table.name}", "bad", why, todo)
    for need in facts.missing_privileges:
        yield Check(subject, "privileges", "warn", f"missing {need}", "Grant it: a recovery needs it.")
    if not facts.missing_privileges:
        yield Check(subject, "privileges", "ok", "all that a recovery needs")


def _way_out(facts: PgFacts, fault: str) -> str:
    if fault == VIA_ROOT:
        return f"ALTER PUBLICATION {facts.publication_name} SET ({VIA_ROOT} = true), then recover the table."
    return f"Change {fault}: the events must hold every change of every row."


def _slot(facts: PgFacts, subject: str) -> Iterator[Check]:
    slot, name = facts.slot, f"slot {facts.slot_name}"
    if slot is None:
        yield Check(
            subject, name, "warn", "does not exist", "The connector makes it at its first start; check source.slot."
        )
    elif slot.invalidated:
        yield Check(
            subject, name, "bad", f"invalidated ({slot.invalidated})", "A new slot is needed: diagnose the pipeline."
        )
    elif fault := slot.misfit(facts.log.database):
        yield Check(subject, name, "bad", fault, "Check source.slot and source.database.")
    else:
        yield Check(subject, name, "ok", str(facts.forecast))


def _publication(facts: PgFacts, subject: str) -> Iterator[Check]:
    name, absent = f"publication {facts.publication_name}", facts.unpublished()
    if facts.publication is None:
        todo = f"CREATE PUBLICATION {facts.publication_name} FOR TABLE …, or check source.publication."
        yield Check(subject, name, "bad", "does not exist in this database", todo)
    elif absent:
        todo = f"ALTER PUBLICATION {facts.publication_name} ADD TABLE {', '.join(absent)}"
        yield Check(subject, name, "bad", f"lacks {', '.join(absent)}", todo)
    else:
        yield Check(subject, name, "ok", f"{len(facts.tables)} of the pipeline's tables")
