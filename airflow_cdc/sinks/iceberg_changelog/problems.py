"""The problems of change logs that Iceberg's sink connector appends to."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.feeder import FeederFacts
from airflow_cdc.core.problem import AnyCase, Rules
from airflow_cdc.decisions.diagnosis.feeder_rows import settings_rules
from airflow_cdc.sinks.iceberg_changelog.config import ChangelogConfig


def _config(facts: FeederFacts, _: AnyCase) -> ChangelogConfig:
    return ChangelogConfig(facts.settings, facts.name)


RULES: Final[Rules] = settings_rules(_config, "the change logs cannot be followed")
