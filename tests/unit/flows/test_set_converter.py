"""A converter that turns NULL into a column's default: refused before rows are read, or set by a recovery that may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from airflow_cdc.core.errors import ConfigError, SourceError
from airflow_cdc.flows import capture, null_defaults
from airflow_cdc.flows.run import Run
from tests.unit.flows.recovering import DEBEZIUM, NAME, ORDERS, recovering


@dataclass(frozen=True)
class Fault:
    """What a converter does to NULLs."""

    what: str
    todo: str
    settings: Mapping[str, str]


SETTABLE = Fault("NULLs arrive as 7", "Set it.", {"value.converter.replace.null.with.default": "false"})
BY_HAND = Fault("NULLs arrive as 7", "Update Connect.", {})


def converting(monkeypatch: pytest.MonkeyPatch, fault: Fault | None, *, allowed: bool, may: bool = True) -> Run:
    """A run whose connector's converter has this fault, and whose policy allows to set it."""

    class Rules:
        def may_replace_nulls(self, _config: Any) -> bool:
            return may

        def null_fault(self, config: Any, definitions: Any, defaults: Any) -> Fault | None:
            assert (config, list(definitions), defaults) == (DEBEZIUM, [NAME], {NAME: {"a": "7"}})
            return fault

    run = recovering()
    source: Any = run.clients.source
    source.definitions_and_defaults.return_value = ({NAME: ORDERS}, {NAME: {"a": "7"}})
    monkeypatch.setattr(null_defaults, "config_rules_of", lambda _pipeline: Rules())
    monkeypatch.setattr(null_defaults, "captured", lambda _run, _tables=(): {NAME: ORDERS})
    policy = replace(run.pipeline.policy, set_converter=allowed)
    return replace(run, pipeline=replace(run.pipeline, policy=policy))


@pytest.mark.parametrize(("fault", "allowed"), [(SETTABLE, False), (BY_HAND, True), (BY_HAND, False)])
def test_rows_are_not_read_while_nulls_would_arrive_as_defaults_and_nobody_may_change_that(
    monkeypatch: pytest.MonkeyPatch, fault: Fault, allowed: bool
) -> None:
    with pytest.raises(ConfigError, match="NULLs arrive as 7") as refused:
        null_defaults.require_nulls(converting(monkeypatch, fault, allowed=allowed), {NAME: ORDERS})
    assert refused.value.todo == fault.todo


@pytest.mark.parametrize(("fault", "allowed"), [(None, False), (SETTABLE, True)])
def test_rows_are_read_where_nulls_arrive_or_the_recovery_will_see_to_it(
    monkeypatch: pytest.MonkeyPatch, fault: Fault | None, allowed: bool
) -> None:
    null_defaults.require_nulls(converting(monkeypatch, fault, allowed=allowed), {NAME: ORDERS})


def test_a_recovery_that_may_sets_it_and_leaves_all_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    run = converting(monkeypatch, SETTABLE, allowed=True)
    assert null_defaults.set_converter(run) == tuple(SETTABLE.settings)
    made: Any = run.clients.connector
    made.change_config.assert_called_once_with("shop", DEBEZIUM, {**DEBEZIUM, **SETTABLE.settings})


def test_a_recovery_that_may_not_starts_no_connector_that_would_lose_nulls(monkeypatch: pytest.MonkeyPatch) -> None:
    run = converting(monkeypatch, SETTABLE, allowed=False)
    with pytest.raises(ConfigError):
        null_defaults.set_converter(run)
    made: Any = run.clients.connector
    made.change_config.assert_not_called()


def test_only_tables_that_are_recovered_can_keep_the_connector_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Avro a table that nobody asked to recover kept it stopped, at the recovery's end."""
    run, among = converting(monkeypatch, SETTABLE, allowed=True), {NAME: ORDERS, "shop.other": ORDERS}
    monkeypatch.setattr(null_defaults, "captured", lambda _run, tables: {name: among[name] for name in tables or among})
    assert null_defaults.set_converter(run, [NAME])


@pytest.mark.parametrize(("fault", "may"), [(None, True), (SETTABLE, False)])
def test_a_connector_that_carries_nulls_keeps_its_configuration(
    monkeypatch: pytest.MonkeyPatch, fault: Fault | None, may: bool
) -> None:
    """Each new configuration restarts its task."""
    run = converting(monkeypatch, fault, allowed=True, may=may)
    assert null_defaults.set_converter(run) == ()
    made: Any = run.clients.connector
    made.change_config.assert_not_called()


def test_tables_that_the_source_does_not_have_are_named_in_one_error() -> None:
    run = recovering()
    source: Any = run.clients.source
    source.definitions.side_effect = lambda names: {name: ORDERS for name in names if name == NAME}
    with pytest.raises(SourceError, match=r"the source has no table shop\.a, shop\.b \("):
        capture.defined(run, ["shop.b", NAME, "shop.a"])


def test_without_a_choice_all_tables_of_the_pipeline_are_defined_and_none_asks_for_nothing() -> None:
    run = recovering()
    assert list(capture.defined(run)) == list(run.pipeline.source.tables)
    source: Any = run.clients.source
    source.definitions.reset_mock()
    assert capture.present(run, []) == {}
    source.definitions.assert_not_called()
