"""What the KIND of any system must fulfil; no server is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass

import pytest

from airflow_cdc.core.endpoint import CallLimits, Endpoint
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.kind import ConnectorKind, ControlKind, Lazy, Named
from airflow_cdc.core.offset import OffsetCodec
from airflow_cdc.core.settings import Reader, declared, own_connection, settings_to_json
from airflow_cdc.kinds import WINGS, Kinds


def lazies(value: object, path: str = "") -> Iterator[tuple[str, Lazy[object]]]:
    """Everything that a kind refers to without importing it, with the path of fields that leads to it."""
    if isinstance(value, Lazy):
        yield path, value
    elif is_dataclass(value):
        for field in fields(value):
            yield from lazies(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, dict):
        for name, below in value.items():
            yield from lazies(below, f"{path}.{name}")


def _codec(kind: Named) -> list[OffsetCodec]:
    """The further argument of a connector's client besides the endpoint: one of its codecs."""
    known = kind.reads.values() if isinstance(kind, ConnectorKind) else ()
    return [reads.codec.load()() for reads in known if reads.codec is not None][:1]


class KindContract:
    """Subclass it and provide the fixtures:

    * `kind`: the KIND under test;
    * `written`: such a part as pipelines.yaml holds it, with `kind` and every other required key;
    * `endpoint`: an endpoint of that kind; no server has to run there;
    * `secrets`: the texts in the endpoint that nobody may see.
    """

    @pytest.fixture
    def wing(self, kind: Named) -> Kinds[Named]:
        """The list in which the kind must be found."""
        return next(kinds for kinds in WINGS.values() if isinstance(kind, kinds.type))

    def test_it_is_found_by_its_name(self, kind: Named, wing: Kinds[Named]) -> None:
        assert wing[kind.name] is kind

    def test_everything_it_names_is_there(self, kind: Named) -> None:
        for path, lazy in lazies(kind):
            assert lazy.load() is not None, path

    def test_every_key_is_described(self, kind: Named) -> None:
        keys = declared(kind.settings)
        assert keys[0].name == "kind"
        assert all(one.key.description.endswith(".") for one in keys)

    def test_its_settings_are_read_and_written(self, kind: Named, written: dict[str, object]) -> None:
        settings = self._read(kind, written)
        if kind.hook is not None:
            assert own_connection(settings)
        again = json.loads(json.dumps(settings_to_json(settings)))
        assert self._read(kind, again) == settings
        assert again.items() >= written.items()

    @pytest.mark.parametrize("key", ["no_such_key", "knid"])
    def test_an_unknown_key_is_a_fault_that_names_it(self, kind: Named, written: dict[str, object], key: str) -> None:
        with pytest.raises(ConfigError, match=key):
            self._read(kind, {**written, key: "x"})

    def test_a_key_that_must_be_written_is_missed(self, kind: Named, written: dict[str, object]) -> None:
        for one in declared(kind.settings):
            if one.required and one.name != "kind":
                with pytest.raises(ConfigError, match=f"{one.name} is missing"):
                    self._read(kind, {key: value for key, value in written.items() if key != one.name})

    def test_an_endpoint_shows_no_secret(self, endpoint: Endpoint, secrets: tuple[str, ...]) -> None:
        for text in (repr(endpoint), endpoint.where, str(getattr(endpoint, "dataset", ""))):
            assert not any(secret in text for secret in secrets)

    def test_an_endpoint_survives_the_settings_of_a_driver(self, kind: Named, endpoint: Endpoint) -> None:
        assert kind.endpoint.load()(**json.loads(json.dumps(asdict(endpoint)))) == endpoint

    def test_a_limit_only_shortens_calls(self, endpoint: Endpoint) -> None:
        assert endpoint.limited(CallLimits.waited_for(1e9)) == endpoint
        short = endpoint.limited(CallLimits(0.5, 0.5, 0.5, 0.5))
        assert short.where == endpoint.where
        assert short.limited(CallLimits()) == short

    def test_making_a_client_connects_to_nothing(self, kind: Named, endpoint: Endpoint) -> None:
        if isinstance(kind, ControlKind):  # only Control calls it, and its calls are guarded as a whole
            assert kind.client.load()(endpoint).where == endpoint.where
            return
        client = kind.client.load()(endpoint, *_codec(kind))
        assert client.where == endpoint.where
        assert client.limited(CallLimits()).where == endpoint.where

    @staticmethod
    def _read(kind: Named, written: dict[str, object]) -> object:
        reader = Reader(WINGS.__getitem__)
        settings = reader.settings(kind.settings, written)
        if settings is None:
            raise ConfigError("; ".join(f"{fault.key} {fault.what}" for fault in reader.faults))
        return settings
