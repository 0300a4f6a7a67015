"""Keep what was observed where pages and commands read it: beside the pipeline's reports."""

from __future__ import annotations

import logging

from airflow_cdc.core.diagnosis.diagnose import Diagnosis
from airflow_cdc.core.diagnosis.observation import Observation
from airflow_cdc.core.errors import CdcError
from airflow_cdc.flows.run import Run
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import StoredObservation

log = logging.getLogger("airflow_cdc.remember")


def remember(run: Run, seen: Observation, diagnosis: Diagnosis) -> None:
    """Write `<report_dir>/<pipeline>/observation.json`.

    A folder that can't be written is a warning: what was found must not be hidden by where it could not be kept.
    """
    store = ReportStore(run.report_dir)
    try:
        store.keep_observation(StoredObservation.of(seen, diagnosis, recall(run)))
    except CdcError as error:
        log.warning("the observation of %s was not kept: %s", run.pipeline.name, error)


def recall(run: Run) -> StoredObservation | None:
    """What is stored of the run's pipeline; None where nothing is, or nothing that this version understands."""
    try:
        return ReportStore(run.report_dir).observation(run.pipeline.name)
    except CdcError:
        return None
