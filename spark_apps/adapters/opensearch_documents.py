"""What Spark's tasks do with OpenSearch: write a partition of documents, read a slice of an index.

These run in the executors' Python, which therefore needs this package with its extra `opensearch`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from opensearchpy.exceptions import OpenSearchException
from opensearchpy.helpers import streaming_bulk
from pyspark.sql.pandas.types import to_arrow_type

from airflow_cdc.core.errors import SinkError
from airflow_cdc.sinks.opensearch.mapping import DELETED, DELETED_AT, ID, NOT_DELETED, VERSION
from airflow_cdc.sinks.opensearch.session import CONFLICT, connect, explained
from airflow_cdc.spark_apps.adapters.opensearch_values import from_json, to_json

if TYPE_CHECKING:
    from opensearchpy import OpenSearch
    from pyspark.sql import Row
    from pyspark.sql.types import DataType

    from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint

PER_REQUEST: Final = 1_000
BYTES_PER_REQUEST: Final = 10 * 1024 * 1024
RETRIES: Final = 5
# how long a view stays open between two requests
KEEP_ALIVE: Final = "2h"
_CURRENT: Final = re.compile(r"current version \[(\d+)\]")


class Origin(StrEnum):
    """Where a document's version comes from."""

    EVENT = "event"  # the row's own version; an equal one is the same event, and changes nothing
    READ = "read"  # the first version of the epoch: every event is newer
    AGAIN = "again"  # the version that the document has: what was read again replaces it, and every later event this


@dataclass(frozen=True, slots=True)
class DocumentWriter:
    """Writes rows (id, version, deleted, the fields …) to an index; the function of a Spark task.

    A document with a newer version stays, and counts as written.
    """

    endpoint: OpenSearchEndpoint
    index: str
    fields: tuple[str, ...]
    origin: Origin
    first_version: int

    def __call__(self, rows: Iterable[Row]) -> None:
        """Write a partition. Raises SinkError for a document that OpenSearch refuses for another reason."""
        client = connect(self.endpoint)
        try:
            self._write(client, iter(rows))
        except OpenSearchException as error:
            raise explained(error, "write the documents", f"index {self.index}") from None
        finally:
            client.close()

    def _write(self, client: OpenSearch, rows: Iterator[Row]) -> None:
        while some := list(islice(rows, PER_REQUEST)):
            versions = self._versions(client, [row[0] for row in some]) if self.origin is Origin.AGAIN else {}
            reasons = self._sent(client, (self._action(row, versions) for row in some))
            if self.origin is Origin.AGAIN and reasons:
                self._over_removed(client, [row for row in some if row[0] in reasons], reasons)

    def _over_removed(self, client: OpenSearch, rows: list[Row], refused: Mapping[str, str]) -> None:
        """Write rows whose documents were removed a moment ago (`SearchSink.purge`): OpenSearch still knows their versions.

        They may have been removed before their versions were asked for, or after. A document that was written meanwhile is newer,
        and stays.
        """
        versions = self._versions(client, [row[0] for row in rows])
        newest = {name: int(match[1]) for name, why in refused.items() if (match := _CURRENT.search(why))}
        due = [row for row in rows if row[0] not in versions and row[0] in newest]
        self._sent(client, (self._action(row, newest) for row in due))

    def _sent(self, client: OpenSearch, actions: Iterator[dict[str, object]]) -> dict[str, str]:
        """Write documents. Returns the ids of those for which there is a newer version, and what OpenSearch says."""
        answers = streaming_bulk(
            client,
            actions,
            chunk_size=PER_REQUEST,
            max_chunk_bytes=BYTES_PER_REQUEST,
            raise_on_error=False,
            max_retries=RETRIES,
            initial_backoff=1,
        )
        reasons = {}
        for done, answer in answers:
            item = answer["index"]
            if not done and item["status"] != CONFLICT:
                raise SinkError(
                    f"a document was refused: {_reason(item)}",
                    where=f"index {self.index}, document {item.get('_id')}",
                    todo="Nothing was published; correct the cause and run the job again.",
                )
            if not done:
                reasons[item["_id"]] = _reason(item)
        return reasons

    def _action(self, row: Row, versions: Mapping[str, int]) -> dict[str, object]:
        version = row[1] if self.origin is Origin.EVENT else versions.get(row[0], self.first_version)
        return {
            "_op_type": "index",
            "_index": self.index,
            "_id": row[0],
            "version": version,
            "version_type": "external" if self.origin is Origin.EVENT else "external_gte",
            "_source": self._source(row, version),
        }

    def _source(self, row: Row, version: int) -> dict[str, object]:
        if row[2]:
            return {ID: row[0], DELETED: True, DELETED_AT: int(time.time() * 1000), VERSION: version}
        values = zip(self.fields, row[3:], strict=True)
        return {ID: row[0], **{name: to_json(value) for name, value in values if value is not None}}

    def _versions(self, client: OpenSearch, ids: list[str]) -> Mapping[str, int]:
        """The versions that documents have now, deleted ones included."""
        answer = client.mget(index=self.index, body={"ids": ids}, params={"_source": "false"})
        return {doc["_id"]: doc["_version"] for doc in answer["docs"] if doc.get("found")}


def _reason(item: Mapping[str, object]) -> str:
    error = item.get("error")
    return f"{error.get('type')}: {error.get('reason')}" if isinstance(error, dict) else str(error)


@dataclass(frozen=True, slots=True)
class DocumentReader:
    """Reads the rows of an index from `_source`, a slice per number that it is given; the function of mapInArrow.

    `view`: the point in time that is read; "": as it is when a slice is begun. `fields`: (name, stored type).
    """

    endpoint: OpenSearchEndpoint
    index: str
    view: str
    fields: tuple[tuple[str, DataType], ...]
    slices: int

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read slices. Raises SinkError, also for a view that was closed meanwhile."""
        client = connect(self.endpoint)
        try:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    yield from self._slice(client, number)
        except OpenSearchException as error:
            raise explained(error, "read the documents", f"index {self.index}") from None
        finally:
            client.close()

    def _slice(self, client: OpenSearch, number: int) -> Iterator[pa.RecordBatch]:
        view = self.view or client.create_pit(index=self.index, params={"keep_alive": KEEP_ALIVE})["pit_id"]
        body: dict[str, object] = {
            "size": PER_REQUEST,
            "query": NOT_DELETED,
            "sort": [{ID: "asc"}],
            "pit": {"id": view, "keep_alive": KEEP_ALIVE},
            "track_total_hits": False,
            **({"slice": {"id": number, "max": self.slices}} if self.slices > 1 else {}),
        }
        try:
            while hits := client.search(body=body)["hits"]["hits"]:
                yield self._batch([hit["_source"] for hit in hits])
                body["search_after"] = hits[-1]["sort"]
        finally:
            if not self.view:
                with suppress(OpenSearchException):
                    client.delete_pit(body={"pit_id": [view]})

    def _batch(self, sources: list[Mapping[str, object]]) -> pa.RecordBatch:
        arrays = [
            pa.array([from_json(kind, source.get(name)) for source in sources], to_arrow_type(kind))
            for name, kind in self.fields
        ]
        return pa.RecordBatch.from_arrays(arrays, [f"c{at}" for at in range(len(arrays))])
