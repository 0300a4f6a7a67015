from __future__ import annotations

import re

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.events.mysql import DecodeModes, MySqlValues
from airflow_cdc.connectors.debezium.events.mysql_charsets import CHARSETS, Carriage, check_charset, doubt, signs_of
from airflow_cdc.connectors.debezium.uncarried import looks
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column
from airflow_cdc.events.value import NoValueError
from tests.unit.tables import column, table

CONFIG = {"connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "p"}
ID = column("id", "int", nullable=False)


def text(charset: str | None, kind: str = "varchar(9)") -> Column:
    return column("note", kind, charset=charset)


@pytest.mark.parametrize("name", [name for name, c in CHARSETS.items() if c.carriage is Carriage.REFUSED])
def test_inv_31_a_refused_set_is_named_with_its_column_and_what_to_do(name: str) -> None:
    made = table(ID, text(name), key=("id",))
    with pytest.raises(
        SchemaError, match=rf"character set {name}.*\(column note of shop.t\). Convert the column to utf8mb4"
    ):
        ConnectorSettings.from_config(CONFIG).check_table(made)


def test_inv_31_a_set_that_nobody_measured_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"character set klingon.*nobody has compared"):
        check_charset(text("klingon"), "shop.t")


@pytest.mark.parametrize("name", [name for name, c in CHARSETS.items() if c.carriage is not Carriage.REFUSED])
def test_a_set_is_doubted_exactly_if_it_has_signs(name: str) -> None:
    charset = CHARSETS[name]
    check_charset(text(name), "shop.t")
    assert bool(charset.signs) is (charset.carriage is Carriage.DOUBTED) is bool(doubt(text(name)))
    assert re.compile(f"[{signs_of(text(name)) or 'x'}]")


def test_labels_bytes_and_plain_unicode_are_read_as_they_are() -> None:
    for one in (text("koi8u", "enum('a')"), text(None, "blob"), text("utf8mb4"), text(None)):
        check_charset(one, "shop.t")
        assert doubt(one) == ""
    assert MySqlValues(DecodeModes()).value(text("utf8mb4")).read("é\ufffd") == "é\ufffd"


@pytest.mark.parametrize("name", sorted(name for name, c in CHARSETS.items() if c.carriage is Carriage.DOUBTED))
def test_inv_31_every_sign_of_a_character_set_is_found(name: str) -> None:
    read = MySqlValues(DecodeModes()).value(text(name)).read
    for code in (int(code, 16) for part in CHARSETS[name].signs.split() for code in part.split("-")):
        with pytest.raises(NoValueError):
            read(f"x{chr(code)}y")
    assert [read("Ab é\n"), read("")] == ["Ab é\n", ""]


@pytest.mark.parametrize(
    ("mode", "value", "kind"),
    [("time.precision.mode", "connect", "time"), ("decimal.handling.mode", "double", "decimal(16,2)")],
)
def test_inv_31_a_mode_that_loses_values_is_refused_before_anything_is_read(mode: str, value: str, kind: str) -> None:
    made = table(ID, column("c", kind, precision=16, scale=2, fsp=0), key=("id",))
    with pytest.raises(SchemaError, match=f"{mode}={value} cannot carry"):
        ConnectorSettings.from_config({**CONFIG, mode: value}).check_table(made)


def test_what_is_looked_for_depends_on_columns_and_settings() -> None:
    made = table(
        text("latin1"), column("j", "json"), column("d", "date"), column("gen", "json", generated=True),
        column("free", "varchar(9)", charset="latin1"), key=("note",),
    )  # fmt: skip
    assert [look.column for look in looks(made, years_adjusted=True)] == ["note", "j", "d"]
    assert [look.column for look in looks(made, years_adjusted=False)] == ["note", "j"]
    assert list(looks(table(ID, key=("id",)), years_adjusted=True)) == []


def test_inv_33_the_keys_form_is_the_connectors_own_setting_or_unknown() -> None:
    json = "org.apache.kafka.connect.json.JsonConverter"
    unwrapped = {"key.converter.schemas.enable": "false"}
    assert ConnectorSettings.from_config({**CONFIG, **unwrapped}).keys_wrapped is None
    assert ConnectorSettings.from_config({**CONFIG, "key.converter": json}).keys_wrapped is True
    assert ConnectorSettings.from_config({**CONFIG, "key.converter": json, **unwrapped}).keys_wrapped is False
