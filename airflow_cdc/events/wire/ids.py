"""Where a record's bytes say which schema they were written with: three places, told apart by the connector's configuration.

The bytes do not say which. Case: bare Avro whose first field is a union begins with the byte 0 for NULL, as Confluent's
format does; read as that it named schema 48365826.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_cdc.events.record import Headers, Ids, SchemaId, Unreadable

CONTENT_ID: Final = "contentId"
GLOBAL_ID: Final = "globalId"
_SIZES: Final = {Ids.CONFLUENT: 4, Ids.APICURIO: 8}
_KINDS: Final = (GLOBAL_ID, CONTENT_ID)


@dataclass(frozen=True, slots=True)
class Framing:
    """Where the id of the schema of a key or a value is.

    Attributes:
        side: "key" or "value": headers are named by it.
        kind: what an id in the bytes counts, CONTENT_ID or GLOBAL_ID; a header says it itself.
    """

    ids: Ids
    side: str
    kind: str = CONTENT_ID

    def split(self, data: bytes, headers: Headers) -> tuple[SchemaId, int]:
        """The schema's id, and where the message begins in the bytes. Raises Unreadable."""
        if self.ids is Ids.HEADERS:
            return self._in(headers), 0
        end = 1 + _SIZES[self.ids]
        if data[:1] != b"\0" or len(data) < end:
            raise Unreadable(f"the {self.side} does not begin with a schema id of {end - 1} bytes")
        return SchemaId(self.kind, int.from_bytes(data[1:end], "big")), end

    def _in(self, headers: Headers) -> SchemaId:
        """Case: apicurio.value.globalId = 00 00 00 00 00 00 00 1c is schema 28."""
        ids = {name: data for name, data in headers if data is not None and len(data) == _SIZES[Ids.APICURIO]}
        for kind in _KINDS:
            if (data := ids.get(f"apicurio.{self.side}.{kind}")) is not None:
                return SchemaId(kind, int.from_bytes(data, "big"))
        raise Unreadable(f"no header of the record has the id of its {self.side}'s schema")
