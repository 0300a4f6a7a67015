"""What a connector's converter settings say, against records of real connectors in each form."""

from __future__ import annotations

import pytest

from airflow_cdc.connectors.debezium.converters import Format, read_converter
from airflow_cdc.connectors.debezium.null_defaults import null_fault, replaces_nulls
from airflow_cdc.core.table import Table
from airflow_cdc.events.record import Ids, SchemaId
from airflow_cdc.events.wire.ids import CONTENT_ID, GLOBAL_ID, Framing
from tests.unit.tables import col
from tests.wires import names, payload, recording

AVRO = names("-avro-")
CONFLUENT = {"value.converter": "io.confluent.connect.avro.AvroConverter"}
APICURIO = {"value.converter": "io.apicurio.registry.utils.converter.AvroConverter"}
V2, V3 = "http://r:8080/apis/registry/v2", "http://r:8080/apis/registry/v3"
URL = "value.converter.apicurio.registry.url"


@pytest.mark.parametrize("name", AVRO)
def test_the_settings_say_where_each_records_schema_id_is(name: str) -> None:
    """The registry that wrote it knows each of these ids by that kind of number."""
    known = {SchemaId(kind, int(number)) for kind, _, number in (key.partition(":") for key in recording(name).schemas)}
    config = dict(recording(name).settings)
    framings = {
        side: read_converter(config | {f"{side}.converter.apicurio.registry.url": V2}, side).framing
        for side in ("key", "value")
    }
    seen = set()
    for record in recording(name).records["t"]:
        for side, data in (("key", record.key), ("value", record.value)):
            framing = framings[side]
            assert framing is not None
            if data is not None:
                seen.add(framing.split(data, record.headers)[0])
    assert seen
    assert seen <= known


@pytest.mark.parametrize(
    ("own", "framing"),
    [
        (CONFLUENT, Framing(Ids.CONFLUENT, "value")),
        (CONFLUENT | {"value.converter.value.schema.id.serializer": "io.confluent.x.HeaderSchemaIdSerializer"}, None),
        (APICURIO, Framing(Ids.HEADERS, "value", GLOBAL_ID)),
        (APICURIO | {URL: V2}, Framing(Ids.HEADERS, "value", GLOBAL_ID)),
        (APICURIO | {URL: V3}, Framing(Ids.CONFLUENT, "value", CONTENT_ID)),
        (APICURIO | {"value.converter.apicurio.registry.headers.enabled": "false"}, Framing(Ids.APICURIO, "value", GLOBAL_ID)),
        (
            APICURIO
            | {
                "value.converter.apicurio.registry.headers.enabled": "false",
                "value.converter.apicurio.registry.id-handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler",
            },
            Framing(Ids.CONFLUENT, "value", GLOBAL_ID),
        ),
        (APICURIO | {"value.converter.apicurio.registry.headers.handler": "com.example.Mine"}, None),
        ({"value.converter": "org.apache.kafka.connect.json.JsonConverter"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_a_form_is_told_by_settings_or_not_at_all(own: dict[str, str], framing: Framing | None) -> None:
    assert read_converter(own, "value").framing == framing


def test_the_registrys_login_is_read_and_not_shown() -> None:
    config = CONFLUENT | {
        "value.converter.schema.registry.url": "https://u:hidden/1@r:8081, https://s:8081",
        "value.converter.basic.auth.user.info": "cdc:hidden2",
    }
    converter = read_converter(config, "value")
    assert (converter.format, converter.registry) == (Format.AVRO, "https://r:8081")
    assert (converter.user, converter.password) == ("cdc", "hidden2")
    assert "hidden" not in repr(converter)
    placeholder = config | {"value.converter.basic.auth.user.info": "${file:/secrets:login}"}
    assert (read_converter(placeholder, "value").user, read_converter(placeholder, "value").password) == ("", "")


TABLE = Table("wires", "t", (col("id", 1, "int", "int", nullable=False), col("more", 2, "int", "int")), ("id",))


IN_JSON = [name for name in names("mysql-flat") if "protobuf" not in name]


@pytest.mark.parametrize("name", [*names("mysql-json"), *names("mysql-avro"), *IN_JSON])
def test_whether_a_null_arrives_as_its_default_is_known_from_the_settings(name: str) -> None:
    """The recorded table has a NULL in a column with a default. Settings of before 2.5 may or may not be in force."""
    settings = dict(recording(name).settings)
    replaced = replaces_nulls(settings)
    fault = null_fault(settings, {"wires.t": TABLE}, {"wires.t": {"more": "7"}})
    assert (fault is not None) == replaced
    if "avro" in name:
        assert replaced  # seen in tests/contract/test_wires.py
        return
    values = [payload(one.value) for one in recording(name).records["t"]]
    rows = [value["after"] if "op" in value else value for value in values if value]
    arrived = next(row["more"] for row in rows if row and row["id"] == 4 and row.get("__deleted") != "true")
    if "flat-old-rewrite" not in name:
        assert (arrived == 7) == replaced
    if fault is not None:
        fixed = settings | dict(fault.settings)
        assert not replaces_nulls(fixed)


def test_protobuf_of_confluent_tells_by_its_settings_whether_it_shows_a_null_and_whose_schema_it_names() -> None:
    own = {"value.converter": "io.confluent.connect.protobuf.ProtobufConverter"}
    plain = read_converter(own, "value")
    assert (plain.format, plain.framing) == (Format.PROTOBUF, Framing(Ids.CONFLUENT, "value"))
    assert (plain.needs_registry, plain.shows_null, plain.other_schema, plain.replaces_null) == (True, False, "", True)
    for name in ("optional.for.nullables", "wrapper.for.nullables"):
        assert read_converter(own | {f"value.converter.{name}": "true"}, "value").shows_null
    latest = own | {
        "value.converter.use.latest.version": "true",
        "value.converter.ignore.default.for.nullables": "true",
    }
    assert read_converter(latest, "value").other_schema == "value.converter.use.latest.version"
    assert not read_converter(latest, "value").replaces_null


def test_where_no_setting_keeps_a_null_the_way_out_says_so() -> None:
    fault = null_fault(APICURIO, {"wires.t": TABLE}, {"wires.t": {"more": "7"}})
    assert fault is not None
    assert not fault.settings
    assert "no setting" in fault.todo
    confluent = null_fault(CONFLUENT, {"wires.t": TABLE}, {"wires.t": {"more": "7"}})
    assert confluent is not None
    assert confluent.settings == {"value.converter.ignore.default.for.nullables": "true"}
