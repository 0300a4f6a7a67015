"""How a catalog holds stages: registered on the target's own files, or as tables of their own beside it (ADR 0020).

Which way a catalog allows is found out by its first stage, noted in the properties of the namespace `cdc_stage`, and
said by `airflow cdc doctor`. `staging` in pipelines.yaml overrides it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError, RESTError, TableAlreadyExistsError
from pyiceberg.table import Table

from airflow_cdc.core.errors import ConfigError, SinkError, UnknownStateError
from airflow_cdc.sinks.iceberg.beside import create_beside
from airflow_cdc.sinks.iceberg.catalog import describe, write_metadata
from airflow_cdc.sinks.iceberg.stage import STAGE_NAMESPACE, Stage, staged_metadata

log = logging.getLogger("airflow_cdc.iceberg")

# our own key, removed from the properties before the catalog is opened
STAGING = "staging"
NOTE, REASON, ASKED, TRIED = "cdc.staging", "cdc.staging.reason", "cdc.staging.asked", "cdc.staging.tried"
_ALLOW = (
    "The table was not changed. Allow the catalog's principal to register tables, or to create them, in the namespace "
    f"{STAGE_NAMESPACE}; then run the step again."
)
_OTHER = "The table was not changed. Use another catalog for this sink: a REST, SQL, Glue or Hive catalog that keeps snapshots and tags."


class Staging(StrEnum):
    """How stages are made. AUTO: registered if the catalog allows it, else beside."""

    AUTO = "auto"
    REGISTERED = "registered"
    BESIDE = "beside"


WORDS: Mapping[Staging, str] = {
    Staging.REGISTERED: "registered on the tables' own files",
    Staging.BESIDE: "in tables of their own, beside the tables",
}


@dataclass(frozen=True, slots=True)
class Noted:
    """The way that a catalog was found to allow, and why the other was not taken. `tried`: to its publish and drop."""

    way: Staging
    reason: str = ""
    tried: bool = False

    def __str__(self) -> str:
        return f"stages are made {WORDS[self.way]}" + (f" ({self.reason})" if self.reason.strip("-") else "")


def staging_of(properties: Mapping[str, str]) -> Staging:
    """The way that the settings ask for. Raises ConfigError for an unknown one."""
    try:
        return Staging(properties.get(STAGING, Staging.AUTO))
    except ValueError:
        known = ", ".join(Staging)
        raise ConfigError(f"{STAGING} is none of {known}", where="the Iceberg catalog", todo=f"Set {known}.") from None


def create_stage(catalog: Catalog, source: Table, stage: Stage, asked: Staging, known: Noted | None) -> Noted:
    """Create the stage's table from the metadata of `source`, unless it exists. Returns the way that was taken.

    `known`: how the last stage was made; None asks the note. Raises SinkError if no way works.
    """
    noted = known or noted_way(catalog, asked)
    found = _made(catalog, source, stage, asked, noted)
    if noted is None or noted.way is not found.way:
        _note(catalog, asked, found)
        return found
    return noted


def _made(catalog: Catalog, source: Table, stage: Stage, asked: Staging, noted: Noted | None) -> Noted:
    way = noted.way if noted and asked is Staging.AUTO else asked
    if way is Staging.BESIDE:
        create_beside(catalog, source, stage)
        return Noted(Staging.BESIDE)
    refusal = _register(catalog, source, stage)
    if refusal is None:
        return Noted(Staging.REGISTERED)
    if asked is Staging.REGISTERED:
        raise _refused(stage, f"the catalog registers no stage: {refusal}", "Set `staging: auto` or `beside`.")
    return _beside_instead(catalog, source, stage, refusal)


def _beside_instead(catalog: Catalog, source: Table, stage: Stage, refusal: str) -> Noted:
    try:
        create_beside(catalog, source, stage)
    except SinkError as error:
        raise _refused(
            stage,
            f"the catalog allows no stage, neither one registered on the table's own files ({refusal}) nor a table of"
            f" its own ({error.what})",
            _ALLOW,
        ) from None
    return Noted(Staging.BESIDE, f"registration was refused: {refusal}")


def _refused(stage: Stage, text: str, todo: str) -> SinkError:
    return SinkError(text, where=f"stage {stage.name} of {stage.target}", todo=todo)


def unfit(where: str, why: str) -> SinkError:
    """The error about a catalog in which nothing can be staged."""
    return SinkError(f"the catalog can hold no stage: {why}", where=where, todo=_OTHER)


def _register(catalog: Catalog, source: Table, stage: Stage) -> str | None:
    """Register the stage. Returns None, or the catalog's words if it refuses to."""
    metadata = staged_metadata(source.metadata, stage)
    location = f"{metadata.location.rstrip('/')}/metadata/00000-{uuid.uuid4()}.metadata.json"
    write_metadata(metadata, source.io, location)
    try:
        catalog.register_table(stage.identifier, location)
    except TableAlreadyExistsError:  # another try of this step was faster
        return None
    except Exception as error:
        if not is_refusal(error):
            raise UnknownStateError(
                f"the stage cannot be registered: {describe(error)}",
                where=stage.name,
                todo="Check the catalog and its storage, then clear the task.",
            ) from None
        with suppress(Exception):
            source.io.delete(location)
        return _words(error)
    return None


def is_refusal(error: Exception) -> bool:
    """Whether the catalog answered that it never does this. RESTError itself: an answer 404, 405, 406 or 422."""
    return isinstance(error, NotImplementedError | BadRequestError | ForbiddenError) or type(error) is RESTError


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def noted_way(catalog: Catalog, asked: Staging) -> Noted | None:
    """The way noted when this was asked for; None if no stage was made yet, or if the catalog keeps no such notes."""
    with suppress(Exception):
        properties = catalog.load_namespace_properties((STAGE_NAMESPACE,))
        if properties[ASKED] == asked:
            return Noted(Staging(properties[NOTE]), properties.get(REASON, ""), properties.get(TRIED) == asked)
    return None


def _note(catalog: Catalog, asked: Staging, found: Noted) -> None:
    """Note the way for the next stages, and say it once."""
    log.info("catalog %s: %s", catalog.name, found)
    with suppress(Exception):  # without the note, the next process finds out again
        noted = {NOTE: found.way.value, REASON: found.reason or "-", ASKED: asked.value}
        catalog.update_namespace_properties((STAGE_NAMESPACE,), updates=noted)


def note_trial(catalog: Catalog, asked: Staging) -> None:
    """Note that a stage was made, published and dropped when this was asked for."""
    with suppress(Exception):  # without the note, the next recovery tries again
        catalog.update_namespace_properties((STAGE_NAMESPACE,), updates={TRIED: asked.value})
