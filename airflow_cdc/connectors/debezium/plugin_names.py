"""The classes of Connect's plugins behind the short names that a configuration may give them.

Connect takes a class by its whole name, by the name without its package (`MySqlConnector`, `ExtractNewRecordState`), and
without the word for what it is (`MySql`, `Json`); `connector.class` says so in its documentation, and PluginUtils.java
makes the names. It refuses a name that two of its plugins share. Debezium 3.6.1 itself fails on a short name of its
connector, older releases don't. Known here are the classes that are told apart somewhere else in this folder; a class of
another name stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

_KAFKA: Final = "org.apache.kafka.connect.transforms."
_DEBEZIUM: Final = "io.debezium.transforms."
MYSQL: Final = "io.debezium.connector.mysql.MySqlConnector"
MARIADB: Final = "io.debezium.connector.mariadb.MariaDbConnector"
POSTGRES: Final = "io.debezium.connector.postgresql.PostgresConnector"
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
CONFLUENT: Final = "io.confluent.connect."
CONFLUENT_AVRO: Final = f"{CONFLUENT}avro.AvroConverter"
CONFLUENT_JSON: Final = f"{CONFLUENT}json.JsonSchemaConverter"
CONFLUENT_PROTOBUF: Final = f"{CONFLUENT}protobuf.ProtobufConverter"
APICURIO: Final = "io.apicurio.registry.utils.converter."
APICURIO_AVRO: Final = f"{APICURIO}AvroConverter"
APICURIO_JSON: Final = f"{APICURIO}ExtJsonConverter"
_CONVERTERS: Final = (
    JSON,
    CONFLUENT_JSON,
    CONFLUENT_PROTOBUF,
    APICURIO_JSON,
    "org.apache.kafka.connect.storage.StringConverter",
    "io.debezium.converters.CloudEventsConverter",
)
# a name that two makers gave to their converter: the settings beside it tell whose it is
_AVRO: Final = (("schema.registry.url", CONFLUENT_AVRO), ("apicurio.registry.url", APICURIO_AVRO))
_OF_DEBEZIUM: Final = (
    "ByLogicalTableRouter ContentBasedRouter ExtractChangedRecordState ExtractNewRecordState GeometryFormatTransformer "
    "HeaderToValue SchemaChangeEventFilter SwapGeometryCoordinates TimezoneConverter ToLogicalTopicRouter "
    "VectorToJsonConverter openlineage.OpenLineage outbox.EventRouter partitions.PartitionRouting"
)
_OF_KAFKA: Final = (
    "Cast DropHeaders ExtractField Filter Flatten HeaderFrom HoistField InsertField InsertHeader MaskField RegexRouter "
    "ReplaceField SetSchemaMetadata TimestampConverter TimestampRouter ValueToKey predicates.TopicNameMatches"
)


def _short(classes: tuple[str, ...], word: str) -> Iterator[tuple[str, str]]:
    """Each short name of these classes, and the class."""
    for name in classes:
        simple = name.rpartition(".")[2]
        yield simple, name
        yield simple.removesuffix(word), name


_TRANSFORMS: Final = (
    *(f"{_DEBEZIUM}{name}" for name in _OF_DEBEZIUM.split()),
    *(f"{_KAFKA}{name}" for name in _OF_KAFKA.split()),
)
# pattern of the settings whose value is a class, and its short names
_CLASSES: Final[tuple[tuple[re.Pattern[str], Mapping[str, str]], ...]] = (
    (re.compile(r"connector\.class"), dict(_short((MYSQL, MARIADB, POSTGRES), "Connector"))),
    (re.compile(r"(key|value)\.converter"), dict(_short(_CONVERTERS, "Converter"))),
    (re.compile(r"(transforms|predicates)\.[^.]+\.type"), dict(_short(_TRANSFORMS, "Transformation"))),
)


def by_whole_names(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with the whole name of each class that is known here, however they name it."""
    return {name: _whole(name, value, settings) for name, value in settings.items()}


def _whole(name: str, value: str, settings: Mapping[str, str]) -> str:
    for pattern, classes in _CLASSES:
        if pattern.fullmatch(name):
            # Kafka's transforms of keys and of values are classes within a class: Cast$Value
            simple, inner, side = value.strip().partition("$")
            if simple in {"Avro", "AvroConverter"}:
                return next((whole for option, whole in _AVRO if settings.get(f"{name}.{option}")), value)
            return f"{classes[simple]}{inner}{side}" if simple in classes else value
    return value
