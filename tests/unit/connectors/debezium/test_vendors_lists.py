"""The lists of this part, against what MySQL's, PostgreSQL's, Kafka's and Debezium's own documentation lists."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.connectors.debezium.converters import Format, read_converter
from airflow_cdc.connectors.debezium.events.mysql import DecodeModes, MySqlValues
from airflow_cdc.connectors.debezium.events.postgres import PostgresValues
from airflow_cdc.connectors.debezium.history import column_defs
from airflow_cdc.connectors.debezium.plugin_names import by_whole_names
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column
from airflow_cdc.sources.mysql.types import MySqlWords, words_of
from airflow_cdc.sources.postgres.columns import PgColumn
from airflow_cdc.sources.postgres.types import column_of
from tests.unit.tables import column

# ---- MySQL, "Numeric Data Type Syntax", "String Data Type Syntax", "Using Data Types from Other Database Engines" ----

SAME_TYPES = {
    "tinyint": "BOOL,BOOLEAN,INT1",
    "smallint": "INT2",
    "mediumint": "INT3,MIDDLEINT",
    "int": "INTEGER,INT4",
    "bigint": "INT8",
    "decimal": "DEC,NUMERIC,FIXED",
    "double": "REAL,DOUBLE PRECISION,FLOAT8",
    "float": "FLOAT4",
    "char": "CHARACTER,NCHAR,NATIONAL CHAR,NATIONAL CHARACTER",
    "varchar": "CHARACTER VARYING,CHAR VARYING,VARCHARACTER,NVARCHAR,NCHAR VARCHAR,NCHAR VARYING,NATIONAL VARCHAR,"
    "NATIONAL CHAR VARYING,NATIONAL CHARACTER VARYING",
    "mediumtext": "LONG,LONG VARCHAR",
    "mediumblob": "LONG VARBINARY",
    "geometrycollection": "GEOMCOLLECTION",
}
SYNONYMS = [(name, kind) for kind, names in SAME_TYPES.items() for name in names.split(",")]


def written(kind: str, **more: Any) -> MySqlWords:
    """What is taken of a column of the schema history whose DDL has this type."""
    old = {"name": "c", "position": 1, "typeName": kind, "length": None, "scale": None, "optional": True, **more}
    return words_of(column_defs({"columns": [old]})["c"])


@pytest.mark.parametrize(("name", "kind"), SYNONYMS, ids=[name for name, _ in SYNONYMS])
def test_a_type_under_another_name_is_the_servers_type(name: str, kind: str) -> None:
    assert written(name).data_type == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CHAR", "binary"),
        ("VARCHAR", "varbinary"),
        ("TINYTEXT", "tinyblob"),
        ("TEXT", "blob"),
        ("MEDIUMTEXT", "mediumblob"),
        ("LONGTEXT", "longblob"),
    ],
)
def test_text_in_the_character_set_binary_is_bytes(text: str, kind: str) -> None:
    """MySQL, "The Binary Character Set": the column is created with the corresponding binary type."""
    assert written(text, charsetName="binary").data_type == kind
    assert written(text, charsetName="utf8mb4").data_type == text.lower()


@pytest.mark.parametrize(
    ("kind", "more", "length"),
    [
        # 2^8 - 1, 2^16 - 1, 2^24 - 1 and 2^32 - 1 bytes, whatever the statement says
        ("TINYTEXT", {}, 255),
        ("TEXT", {"length": 70}, 65_535),
        ("MEDIUMTEXT", {}, 16_777_215),
        ("LONGTEXT", {}, 4_294_967_295),
        ("TINYBLOB", {}, 255),
        ("BLOB", {"length": 70}, 65_535),
        ("MEDIUMBLOB", {}, 16_777_215),
        ("LONGBLOB", {}, 4_294_967_295),
        # one character, or byte, if the statement says no number
        ("CHAR", {}, 1),
        ("CHAR", {"length": 9}, 9),
        ("BINARY", {}, 1),
        ("VARCHAR", {"length": 9}, 9),
        ("VARBINARY", {"length": 9}, 9),
        ("ENUM", {"length": 1}, None),
        ("INT", {"length": 11}, None),
        ("DATETIME", {"length": 6}, None),
    ],
)
def test_how_long_a_text_may_be(kind: str, more: dict[str, Any], length: int | None) -> None:
    assert written(kind, **more).char_length == length


@pytest.mark.parametrize(
    ("kind", "more", "digits"),
    [
        ("DECIMAL", {}, (10, 0)),  # DECIMAL is DECIMAL(10,0)
        ("DECIMAL", {"length": 12, "scale": 4}, (12, 4)),
        ("BIT", {}, (1, None)),  # BIT is BIT(1)
        ("BIT", {"length": 12}, (12, None)),
        ("FLOAT", {}, (12, None)),  # as INFORMATION_SCHEMA.COLUMNS reports them
        ("DOUBLE", {}, (22, None)),
        ("FLOAT", {"length": 7, "scale": 3}, (7, 3)),
        ("INT", {"length": 11}, (None, None)),
    ],
)
def test_how_many_digits_a_number_has(kind: str, more: dict[str, Any], digits: tuple[int | None, int | None]) -> None:
    words = written(kind, **more)
    assert (words.precision, words.scale) == digits


@pytest.mark.parametrize(("bits", "kind"), [(24, "float"), (25, "double"), (53, "double")])
def test_float_of_more_than_24_bits_is_a_double(bits: int, kind: str) -> None:
    """MySQL: a precision from 25 to 53 results in an 8-byte double-precision column. FLOAT(M,D) is another thing."""
    assert written("FLOAT", length=bits).data_type == kind
    assert written("FLOAT", length=bits, scale=2).data_type == "float"


@pytest.mark.parametrize("kind", ["DATETIME", "TIMESTAMP", "TIME"])
def test_a_time_has_as_many_fractional_digits_as_it_says_and_none_without(kind: str) -> None:
    assert (written(kind).fsp, written(kind, length=6).fsp) == (0, 6)
    assert written("DATE").fsp is None


@pytest.mark.parametrize("sign", ["UNSIGNED", "UNSIGNED ZEROFILL", "ZEROFILL"])
def test_a_zerofill_column_is_unsigned_too(sign: str) -> None:
    """MySQL adds UNSIGNED to a column with ZEROFILL."""
    assert written(f"INT {sign}").unsigned
    assert not written("INT SIGNED").unsigned


# ---- Debezium, the connectors' properties ---------------------------------------------------------------------------

MYSQL_MODES = {
    "decimal.handling.mode": "precise double string",
    "time.precision.mode": "adaptive_time_microseconds adaptive connect isostring microseconds nanoseconds",
    "bigint.unsigned.handling.mode": "long precise",
    "binary.handling.mode": "bytes base64 base64-url-safe hex",
    # of Kafka's JsonConverter
    "value.converter.decimal.format": "BASE64 NUMERIC",
}
POSTGRES_MODES = {
    "decimal.handling.mode": "precise double string",
    "time.precision.mode": "adaptive adaptive_time_microseconds microseconds",
    "binary.handling.mode": "bytes base64 base64-url-safe hex",
    "interval.handling.mode": "numeric string",
    "hstore.handling.mode": "json map",
}
# each with the default that the documentation names: what is not set is as if that were set
DEFAULTS = {
    "mysql": {
        "decimal.handling.mode": "precise",
        "time.precision.mode": "adaptive_time_microseconds",
        "bigint.unsigned.handling.mode": "long",
        "binary.handling.mode": "bytes",
        "value.converter.decimal.format": "BASE64",
    },
    "postgres": {
        "decimal.handling.mode": "precise",
        "time.precision.mode": "adaptive",
        "binary.handling.mode": "bytes",
        "interval.handling.mode": "numeric",
        "hstore.handling.mode": "json",
    },
}


def _each(modes: dict[str, str]) -> list[tuple[str, str]]:
    return [(setting, value) for setting, values in modes.items() for value in values.split()]


@pytest.mark.parametrize(("setting", "value"), _each(MYSQL_MODES))
def test_each_mode_of_mysqls_connector_is_taken(setting: str, value: str) -> None:
    modes = DecodeModes.from_config({setting: value})
    assert modes == DecodeModes.from_config({setting: value.upper()})
    assert (modes == DecodeModes()) == (value == DEFAULTS["mysql"][setting])
    with pytest.raises(SchemaError, match=f"{setting}=klingon cannot be decoded"):
        DecodeModes.from_config({setting: "klingon"})


@pytest.mark.parametrize(("setting", "value"), _each(POSTGRES_MODES))
def test_each_mode_of_postgresqls_connector_is_taken(setting: str, value: str) -> None:
    values = PostgresValues.from_config({setting: value})
    assert (values == PostgresValues()) == (value == DEFAULTS["postgres"][setting])
    with pytest.raises(SchemaError, match=f"{setting}=klingon cannot be decoded"):
        PostgresValues.from_config({setting: "klingon"})


@pytest.mark.parametrize(
    "kind",
    [
        *("tinyint(4)", "smallint(6)", "mediumint(9)", "int(11)", "bigint(20)", "float", "double", "year(4)", "date"),
        *(
            "datetime(6)",
            "timestamp(6)",
            "time(6)",
            "json",
            "varbinary(9)",
            "tinyblob",
            "blob",
            "mediumblob",
            "longblob",
        ),
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
    ],
)
def test_each_type_of_mysql_is_carried(kind: str) -> None:
    assert MySqlValues().value(column("c", kind)).read is not None


@pytest.mark.parametrize("kind", ["char(9)", "varchar(9)", "tinytext", "text", "mediumtext", "longtext"])
def test_each_text_of_mysql_is_carried(kind: str) -> None:
    assert MySqlValues().value(column("c", kind, charset="utf8mb4")).read("é") == "é"


def pg(kind: str, **more: Any) -> Column:
    return column_of(PgColumn("c", 1, kind, kind, **more))


# without a length that an UPDATE could leave out of the log: they are stored in the row itself
IN_THE_ROW = [
    "int2",
    "int4",
    "int8",
    "oid",
    "bool",
    "float4",
    "float8",
    "money",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "uuid",
    "interval",
    "macaddr",
    "macaddr8",
]
# TOAST-able
LONG = [
    "text",
    "varchar",
    "bpchar",
    "json",
    "jsonb",
    "xml",
    "citext",
    "ltree",
    "inet",
    "cidr",
    "bytea",
    "hstore",
    "int4range",
    "int8range",
    "numrange",
    "tsrange",
    "daterange",
]
# Debezium's documentation of types lists no mapping for them, or one that is not the server's text
NOT_CARRIED = ["tstzrange", "timetz", "tsvector", "int4multirange", "datemultirange", "varbit", "char", "name"]


@pytest.mark.parametrize("kind", [*IN_THE_ROW, *LONG])
def test_each_type_of_postgresql_is_carried_and_a_long_value_may_be_left_out(kind: str) -> None:
    own = PostgresValues(interval="string", decimal="string").value(pg(kind))
    assert bool(own.doubt) == (kind in LONG)


@pytest.mark.parametrize("kind", NOT_CARRIED)
def test_what_events_do_not_carry_as_the_server_writes_it_is_refused(kind: str) -> None:
    with pytest.raises(SchemaError, match="do not carry"):
        PostgresValues().value(pg(kind))


@pytest.mark.parametrize(
    ("element", "carried"),
    [
        *((name, True) for name in ("int4", "int8", "text", "varchar")),
        # {NaN} arrives as NULL, infinity as a day: what was seen on a server
        *((name, False) for name in ("numeric", "date", "timestamptz", "float8", "uuid", "bool", "int2")),
    ],
)
def test_arrays_are_carried_of_elements_that_have_no_odd_value(element: str, *, carried: bool) -> None:
    of = pg(f"_{element}", element=element, element_schema="pg_catalog", element_kind="b")
    if carried:
        assert PostgresValues().value(of).read is not None
        return
    with pytest.raises(SchemaError, match="do not carry such arrays"):
        PostgresValues().value(of)


# ---- Kafka Connect's plugins ----------------------------------------------------------------------------------------

CONVERTERS = {
    "org.apache.kafka.connect.json.JsonConverter": "JSON",
    "io.confluent.connect.avro.AvroConverter": "Avro",
    "io.confluent.connect.protobuf.ProtobufConverter": "Protobuf",
    "io.confluent.connect.json.JsonSchemaConverter": "JSON Schema",
    "io.apicurio.registry.utils.converter.AvroConverter": "Avro",
    "io.apicurio.registry.utils.converter.ExtJsonConverter": "JSON Schema",
    "org.apache.kafka.connect.storage.StringConverter": "an unknown format",
}


@pytest.mark.parametrize(("name", "written_in"), CONVERTERS.items())
def test_a_converter_is_called_by_the_format_that_it_writes(name: str, written_in: str) -> None:
    own = read_converter({"value.converter": name}, "value")
    assert str(own.format) == written_in
    assert own.needs_registry == (written_in in {"Avro", "Protobuf"})
    assert read_converter({}, "value").format is Format.UNSEEN
    assert str(Format.UNSEEN) == "the worker's format"


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("org.apache.kafka.connect.json.JsonConverter", ("replace.null.with.default", "false")),
        ("io.confluent.connect.avro.AvroConverter", ("ignore.default.for.nullables", "true")),
        ("io.confluent.connect.protobuf.ProtobufConverter", ("ignore.default.for.nullables", "true")),
        ("io.confluent.connect.json.JsonSchemaConverter", ("ignore.default.for.nullables", "true")),
        ("io.apicurio.registry.utils.converter.ExtJsonConverter", ("replace.null.with.default", "false")),
        ("io.apicurio.registry.utils.converter.AvroConverter", None),
    ],
)
def test_a_null_stays_one_by_the_setting_of_its_converter(name: str, setting: tuple[str, str] | None) -> None:
    plain = read_converter({"value.converter": name}, "value")
    assert plain.replaces_null
    assert dict(plain.keeps_null) == ({f"value.converter.{setting[0]}": setting[1]} if setting else {})
    if setting:
        assert not read_converter({"value.converter": name, **plain.keeps_null}, "value").replaces_null


@pytest.mark.parametrize(
    ("option", "value", "off"),
    [("use.latest.version", "true", "false"), ("use.schema.id", "7", "-1"), ("use.schema.guid", "9b2a", "")],
)
def test_a_setting_that_names_another_schema_is_told_unless_it_has_its_default(
    option: str, value: str, off: str
) -> None:
    own = {"value.converter": "io.confluent.connect.avro.AvroConverter"}
    assert (
        read_converter(own | {f"value.converter.{option}": value}, "value").other_schema == f"value.converter.{option}"
    )
    assert read_converter(own | {f"value.converter.{option}": off}, "value").other_schema == ""


@pytest.mark.parametrize(
    "option", ["apicurio.registry.headers.handler", "key.schema.id.serializer", "value.schema.id.serializer"]
)
def test_a_class_of_somebodys_own_that_decides_where_the_id_is_is_told(option: str) -> None:
    for converter in ("io.confluent.connect.avro.AvroConverter", "io.apicurio.registry.utils.converter.AvroConverter"):
        own = {"value.converter": converter, f"value.converter.{option}": "com.example.Mine"}
        assert read_converter(own, "value").own_ids == f"value.converter.{option}"


_T = "org.apache.kafka.connect.transforms."
_D = "io.debezium.transforms."
# (setting, short name, whole name): by the class's name, and without the word for what it is
SHORT = (
    ("connector.class", "MySqlConnector", "io.debezium.connector.mysql.MySqlConnector"),
    ("connector.class", "MySql", "io.debezium.connector.mysql.MySqlConnector"),
    ("connector.class", "MariaDb", "io.debezium.connector.mariadb.MariaDbConnector"),
    ("connector.class", "Postgres", "io.debezium.connector.postgresql.PostgresConnector"),
    ("value.converter", "Json", "org.apache.kafka.connect.json.JsonConverter"),
    ("key.converter", "JsonConverter", "org.apache.kafka.connect.json.JsonConverter"),
    ("value.converter", "JsonSchema", "io.confluent.connect.json.JsonSchemaConverter"),
    ("value.converter", "Protobuf", "io.confluent.connect.protobuf.ProtobufConverter"),
    ("value.converter", "ExtJson", "io.apicurio.registry.utils.converter.ExtJsonConverter"),
    ("value.converter", "String", "org.apache.kafka.connect.storage.StringConverter"),
    ("value.converter", "CloudEvents", "io.debezium.converters.CloudEventsConverter"),
    *(
        ("transforms.a.type", name.rpartition(".")[2], f"{_D}{name}")
        for name in (
            *("ByLogicalTableRouter", "ContentBasedRouter", "ExtractChangedRecordState", "ExtractNewRecordState"),
            *("GeometryFormatTransformer", "HeaderToValue", "SchemaChangeEventFilter", "SwapGeometryCoordinates"),
            *("TimezoneConverter", "ToLogicalTopicRouter", "VectorToJsonConverter", "openlineage.OpenLineage"),
            *("outbox.EventRouter", "partitions.PartitionRouting"),
        )
    ),
    *(
        ("transforms.a.type", name, f"{_T}{name}")
        for name in (
            *("DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter", "ValueToKey"),
            *("Cast$Value", "ExtractField$Key", "Flatten$Value", "HeaderFrom$Value", "HoistField$Key"),
            *("InsertField$Value", "MaskField$Value", "ReplaceField$Value", "SetSchemaMetadata$Value"),
            "TimestampConverter$Value",
        )
    ),
    ("predicates.a.type", "TopicNameMatches", f"{_T}predicates.TopicNameMatches"),
)


@pytest.mark.parametrize(("setting", "short", "whole"), SHORT, ids=[f"{one[0]}={one[1]}" for one in SHORT])
def test_a_class_by_its_short_name_is_the_class(setting: str, short: str, whole: str) -> None:
    assert by_whole_names({setting: short}) == {setting: whole}
    assert by_whole_names({setting: whole}) == {setting: whole}
    assert by_whole_names({"name": short}) == {"name": short}
    assert by_whole_names({setting: "com.example.Mine"}) == {setting: "com.example.Mine"}


@pytest.mark.parametrize("short", ["Avro", "AvroConverter"])
def test_whose_avro_it_is_tell_the_settings_beside_it(short: str) -> None:
    confluent, apicurio = (
        "io.confluent.connect.avro.AvroConverter",
        "io.apicurio.registry.utils.converter.AvroConverter",
    )
    for option, whole in (("schema.registry.url", confluent), ("apicurio.registry.url", apicurio)):
        beside = {"value.converter": short, f"value.converter.{option}": "http://r:8081"}
        assert by_whole_names(beside)["value.converter"] == whole
    assert by_whole_names({"value.converter": short}) == {"value.converter": short}
