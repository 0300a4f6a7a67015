"""Control documents in OpenSearch: one document per pipeline, changed only as it was last seen (`if_seq_no`)."""

from __future__ import annotations

from typing import Final

from opensearchpy.exceptions import ConflictError, NotFoundError

from airflow_cdc.core.errors import StaleHeadError
from airflow_cdc.core.ports import StoredDocument
from airflow_cdc.sinks.opensearch.client import SearchSink
from airflow_cdc.sinks.opensearch.indexes import CONTROL
from airflow_cdc.sinks.opensearch.record import ensure_index

# a write returns when its copies have it: without one, a lost node would lose the last epoch
_BODY: Final = {"mappings": {"dynamic": False}, "settings": {"number_of_shards": 1, "auto_expand_replicas": "0-1"}}


class OpenSearchControlStore:
    """A document's version is its sequence number and primary term."""

    def __init__(self, sink: SearchSink) -> None:
        self._session = sink.session
        self.where = sink.where

    def place(self, pipeline: str) -> str:
        """How messages name the document of one pipeline."""
        return f"control document {CONTROL}/{pipeline}"

    def load(self, pipeline: str) -> StoredDocument | None:
        """The current document; None before the first write. Raises UnknownStateError if it cannot be read."""
        with self._session.asked("read the control document", self.place(pipeline)) as client:
            try:
                answer = client.get(index=CONTROL, id=pipeline)
            except NotFoundError:
                return None
        return StoredDocument(str(answer["_source"]["text"]), f"{answer['_seq_no']}.{answer['_primary_term']}")

    def swap(self, pipeline: str, expected: str | None, text: str) -> None:
        """Write `text` if the document is still `expected`. Raises StaleHeadError, SinkError or UnknownStateError."""
        if expected is None:
            ensure_index(self._session, CONTROL, _BODY)
            seen = {"op_type": "create"}
        else:
            seq_no, _, primary_term = expected.partition(".")
            seen = {"if_seq_no": seq_no, "if_primary_term": primary_term}
        with self._session.asked("write the control document", self.place(pipeline)) as client:
            try:
                client.index(index=CONTROL, id=pipeline, body={"text": text}, params=seen)
            except ConflictError:
                raise StaleHeadError(
                    f"the document is not at {expected} any more", where=self.place(pipeline)
                ) from None
