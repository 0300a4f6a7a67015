"""Control documents in an Iceberg catalog, each in the snapshot summary of `cdc_control.<pipeline>`. Needs no JVM."""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from airflow_cdc.core.errors import SinkError, StaleHeadError
from airflow_cdc.core.ports import StoredDocument
from airflow_cdc.sinks.iceberg.catalog import MissingTableError, UnwritableError, commit_once, describe, unwritable
from airflow_cdc.sinks.iceberg.client import Lake, open_lake
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sinks.iceberg.snapshots import delete_lists, empty_commit, head_of, last_sequence, lineage, summary_of

CONTROL_NAMESPACE = "cdc_control"
STATE = "cdc.state"
# The newest snapshot and the one before it. Each holds the document, and each metadata file holds all snapshots.
KEEP_SNAPSHOTS = 2

PROPERTIES = {
    # each attempt must see the state it changes: a retry inside the client would hide a lost race
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    # no clean-up job may touch the history; every write trims it
    "gc.enabled": "false",
}
COLUMNS = (("note", "string"),)


class IcebergControlStore:
    """A table per pipeline, created at the first write; a document's version is the snapshot id of the table's main."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self.where = f"catalog {lake.name}"

    def place(self, pipeline: str) -> str:
        """How messages name the table of one pipeline."""
        return f"control table {CONTROL_NAMESPACE}.{pipeline}"

    def load(self, pipeline: str) -> StoredDocument | None:
        """The current document; None before the first write. Raises UnknownStateError if it cannot be read."""
        try:
            return _document(self._table(pipeline).metadata)
        except MissingTableError:
            return None

    def swap(self, pipeline: str, expected: str | None, text: str) -> None:
        """Commit `text` if main is still `expected`. Raises StaleHeadError, SinkError (refused) or UnknownStateError."""
        if expected is None:
            self._lake.ensure_table(CONTROL_NAMESPACE, pipeline, COLUMNS, PROPERTIES, format_version=2)
        table = self._table(pipeline)
        stored, before = _document(table.metadata), table.metadata.snapshots
        version = None if stored is None else stored.version
        if version != expected:
            raise StaleHeadError(f"main is at {version}, not at {expected}", where=self.place(pipeline))
        try:
            change = empty_commit(table, {STATE: text}, keep=KEEP_SNAPSHOTS)
        except OSError as error:  # a full disk, an object store that refuses: nothing names what was written of it
            what = f"the control document could not be written: {describe(error)}"
            todo = "Nothing was changed. Make room, or see to the warehouse, and run the step again."
            kind = UnwritableError if unwritable(error) else SinkError
            raise kind(what, where=self.place(pipeline), todo=todo) from None
        delete_lists(commit_once(self._lake.catalog, table, change, what="the control document"), before)

    def _table(self, pipeline: str) -> Table:
        return self._lake.table(CONTROL_NAMESPACE, pipeline)


def open_control_store(endpoint: IcebergEndpoint) -> IcebergControlStore:
    """The store in the catalog at `endpoint`."""
    return IcebergControlStore(open_lake(endpoint))


def _document(metadata: TableMetadata) -> StoredDocument | None:
    """The newest document on main, even under commits of other writers. None in a table that was only just created."""
    head = head_of(metadata)
    texts = (summary[STATE] for snapshot in lineage(metadata, head) if STATE in (summary := summary_of(snapshot)))
    text = next(texts, None)
    if text is None and last_sequence(metadata) <= 1:  # 1 is the empty snapshot of a new table
        return None
    return StoredDocument(text or "", str(head))
