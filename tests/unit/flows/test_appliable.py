"""What apply refuses whatever comes is one list: doctor, plan, recovery and apply say it in the same words (INV 35)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.table import Table
from airflow_cdc.flows import doctor
from airflow_cdc.flows.appliable import asked_of, refusals, refuse
from airflow_cdc.flows.recoverable import refuse_unrecoverable
from airflow_cdc.flows.run import Run
from tests.unit.flows.recovering import DEBEZIUM, recovering
from tests.unit.tables import column

ONE, OTHER, MYISAM = (Table("shop", name, (column("id", "int"),), ("id",)) for name in ("a?b", "a/b", "myisam"))


def run_of(*tables: Table, **config: str) -> Run:
    """A run of a pipeline with these tables; `myisam` has no number of InnoDB's."""
    run = recovering()
    source: Any = run.clients.source
    definitions = {one.full_name: one for one in tables}
    source.definitions.side_effect = lambda names: {name: definitions[name] for name in names}
    source.definitions_and_defaults.side_effect = lambda names: ({name: definitions[name] for name in names}, {})
    source.table_ids.side_effect = lambda names: {name: "7" for name in names if name != MYISAM.full_name}
    connector: Any = run.clients.connector
    connector.raw_config.return_value = {**DEBEZIUM, **config}
    transport: Any = run.clients.transport
    transport.newest.return_value = {}
    own = replace(run.pipeline.source, tables=tuple(definitions))
    return replace(run, pipeline=replace(run.pipeline, source=own))


def said(run: Run, *tables: Table) -> list[str]:
    asked = asked_of(run, [table.full_name for table in tables])
    return [error.what for table in tables for error in refusals(asked, table)]


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ((MYISAM,), "a TRUNCATE of the table would go unnoticed"),
        ((ONE, OTHER), "shop.a?b and shop.a/b share the topic shop.shop.a_b"),
    ],
)
def test_inv_35_doctor_plan_recovery_and_apply_refuse_a_table_in_the_same_words(
    tables: tuple[Table, ...], words: str
) -> None:
    run = run_of(*tables)
    (what, *_) = said(run, *tables)
    assert what.startswith(words)
    bad = [check for check in doctor._carried(run) if check.state == "bad"]
    assert all(check.found.startswith(what) and check.todo for check in bad)
    assert len(bad) == len(tables)
    with pytest.raises(ConfigError) as planned:  # what plan and open_recovery ask
        refuse_unrecoverable(run, [table.full_name for table in tables])
    assert planned.value.what == what
    with pytest.raises(ConfigError) as applied:
        refuse(asked_of(run, [tables[0].full_name]), tables[0])
    assert applied.value.what == what


def test_inv_35_a_table_that_shares_a_topic_is_refused_alone_too() -> None:
    """A recovery or an apply of one of the two reads the other's deletes, too."""
    run = run_of(ONE, OTHER)
    assert said(run, ONE) == said(run, OTHER) != []
    assert said(run_of(ONE), ONE) == []


def test_inv_35_what_apply_can_follow_is_not_refused() -> None:
    assert said(run_of(MYISAM, **{"skipped.operations": "none"}), MYISAM) == []
    written = run_of(ONE, OTHER, MYISAM)
    sink = replace(written.pipeline.sink, writer="connector")
    assert said(replace(written, pipeline=replace(written.pipeline, sink=sink)), ONE, MYISAM) == []
