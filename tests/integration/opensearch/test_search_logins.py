"""OpenSearch with its security plugin: TLS, and a user who has exactly the role that the page Privileges shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from airflow_cdc.core.dead_letter import DeadLetter
from airflow_cdc.core.errors import CdcError, ConfigError
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.hooks.opensearch import CdcOpenSearchHook
from airflow_cdc.sinks.opensearch import dead_letters
from airflow_cdc.sinks.opensearch.client import SearchSink
from airflow_cdc.sinks.opensearch.control import OpenSearchControlStore
from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint
from airflow_cdc.spark_apps.adapters.opensearch import OpenSearchWriter
from stack import Stack
from stack.opensearch import start_opensearch
from stack.opensearch_security import Security
from stack.process import end
from tests.contract.stage_writer import SMALL, Scene, opened
from tests.integration.certificates import Certificates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

PAGE: Final = Path(__file__).parents[3] / "docs" / "privileges.md"
PASSWORD = "Pa55word-of-search"
WRONG = "wrong-secret"
# the namespace of the page's role
SHOP = "shop"
READER = {"index_permissions": [{"index_patterns": [f"{SHOP}.*"], "allowed_actions": ["read"]}]}


def documented() -> dict[str, Any]:
    """The roles on the page."""
    section = PAGE.read_text().partition("\n## OpenSearch\n")[2]
    roles: dict[str, Any] = yaml.safe_load(section.partition("```yaml\n")[2].partition("```")[0])
    return roles


@pytest.fixture(scope="module")
def secured(
    servers: Stack, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[OpenSearchEndpoint]:
    """A secured node, as the connection of the page's user has it."""
    c, roles = certificates, {**documented(), "reader": READER}
    security = Security(c.authority, c.certificate, c.key, roles, PASSWORD)
    node = start_opensearch(tmp_path_factory.mktemp("secured"), servers.logs, secured=security)
    try:
        yield OpenSearchEndpoint(node.url, "cdc", PASSWORD, replicas=0, ca_file=str(c.authority))
    finally:
        end(node.child)


@pytest.fixture
def sink(secured: OpenSearchEndpoint) -> Iterator[SearchSink]:
    """A client that the page's user logs in with."""
    client = SearchSink(secured)
    yield client
    client.close()


@dataclass(frozen=True)
class AsReader:
    """The namespace `shop`, written by the page's user and read by one who may read its aliases only."""

    sink: SearchSink
    writer: OpenSearchWriter
    namespace: str = SHOP

    def ids(self, table: str) -> Sequence[int]:
        reader = SearchSink(replace(self.sink.endpoint, user="reader"))
        try:
            hits = reader.session.client.search(index=f"{SHOP}.{table}", body={"size": 100})["hits"]["hits"]
        finally:
            reader.close()
        return sorted(hit["_source"]["id"] for hit in hits)


def test_the_documented_role_carries_a_recovery_and_what_follows(sink: Any, spark: SparkSession) -> None:
    bench = AsReader(sink, OpenSearchWriter(sink))
    sink.reach()
    first = opened(bench, spark, SMALL)
    first.snapshot((1, "a"), (2, "b"))
    again = Scene(bench, spark, SMALL, sink.stage(SHOP, "t", "recov_1_1_v1", from_stage=first.stage))
    again.change((2, 5, "changed"), (3, 6, None))
    version = again.writer.version(again.stage)
    assert [row["word"] for row in again.read(again.writer.at(spark, again.stage, version))] == ["a", "changed"]
    sink.session.client.delete_pit(body={"pit_id": bench.writer._views})
    bench.writer._views.clear()
    sink.publish(again.stage, version, again.stage.base_head)
    for stage in sink.stages(SHOP, "t"):
        sink.drop_stage(stage)
    assert bench.ids("t") == [1, 2]
    applied = Scene(bench, spark, SMALL, sink.stage_for_changes(SHOP, "t", "apply_1"))
    applied.change((1, 7, None), (4, 8, "d"))
    assert bench.ids("t") == [2, 4]
    repaired = Scene(bench, spark, SMALL, sink.stage(SHOP, "t", "repair_1"))
    repaired.change((6, 0, "f"), events=False)
    sink.publish(repaired.stage, sink.stage_head(repaired.stage), repaired.stage.base_head)
    assert (bench.ids("t"), sink.facts(SHOP, "t").rows) == ([2, 4, 6], 3)


def test_the_documented_role_keeps_control_documents_and_dead_letters(sink: SearchSink) -> None:
    store = OpenSearchControlStore(sink)
    store.swap("shop", None, "one")
    now = store.load("shop")
    assert now is not None
    store.swap("shop", now.version, "two")
    letter = DeadLetter("t", "T1", 0, 4, b"k", None, "shop.t", "bad", 1, datetime(2026, 1, 1, tzinfo=UTC))
    dead_letters.record(sink.session, "shop", [letter])
    dead_letters.count_attempt(sink.session, "shop", [letter])
    assert sink.unresolved_letters("shop") == (replace(letter, attempts=2),)
    assert sink.resolve_letters_before("shop", {"shop.t": {"t": TopicOffsets("T1", {0: 5})}}) == 1


def test_a_role_for_an_alias_also_opens_the_index_behind_it(sink: SearchSink, secured: OpenSearchEndpoint) -> None:
    """So the page says: the filter of the alias is for queries, and no lock."""
    sink.ensure_table(SHOP, "gone", ())
    index = sink.index_behind(SHOP, "gone")
    sink.session.client.index(index=index, body={"cdc_deleted": True}, params={"refresh": "true"})
    reader = SearchSink(replace(secured, user="reader"))
    counted = {name: reader.session.client.count(index=name)["count"] for name in (f"{SHOP}.gone", index)}
    reader.close()
    assert counted == {f"{SHOP}.gone": 0, index: 1}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"password": WRONG}, "401.*Check login and password of the OpenSearch connection"),
        ({"user": "reader"}, "403.*indices:.*the user of the OpenSearch connection the permissions.*Privileges lists"),
        ({"ca_file": "stranger.pem"}, "CERTIFICATE_VERIFY_FAILED.*ca_file of the OpenSearch connection"),
        ({"ca_file": ""}, "CERTIFICATE_VERIFY_FAILED.*ca_file of the OpenSearch connection"),
        ({"url": "plain"}, "Check that the cluster is up"),
    ],
)
def test_each_refusal_is_one_clear_line_without_the_password(
    changes: dict[str, str], said: str, secured: OpenSearchEndpoint, certificates: Certificates
) -> None:
    files = {"stranger.pem": str(certificates.stranger), "plain": secured.url.replace("https", "http")}
    given: dict[str, Any] = {name: files.get(value, value) for name, value in changes.items()}
    refused = SearchSink(replace(secured, **given))
    with pytest.raises(CdcError, match=said) as caught:
        refused.ensure_table(SHOP, "orders", ())
    refused.close()
    text = f"{caught.value} {caught.value.to_json()}"
    assert "\n" not in str(caught.value)
    assert (PASSWORD in text, WRONG in text) == (False, False)


def test_the_certificate_goes_unchecked_without_a_word_where_the_connection_says_so(
    secured: OpenSearchEndpoint, certificates: Certificates
) -> None:
    unchecked = SearchSink(replace(secured, verify=False, ca_file=str(certificates.stranger)))
    unchecked.reach()
    unchecked.close()


def test_a_ca_file_that_cannot_be_read_is_named(secured: OpenSearchEndpoint) -> None:
    with pytest.raises(ConfigError, match=r"CA file /none\.pem cannot be read.*ca_file"):
        SearchSink(replace(secured, ca_file="/none.pem")).reach()


def test_a_connection_of_airflow_opens_it(secured: OpenSearchEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    host, port = re.findall(r"//(.*):(\d+)", secured.url)[0]
    made = {"conn_type": "cdc_opensearch", "host": host, "port": int(port), "schema": "https", "login": "cdc"}
    made["extra"] = {"ca_file": secured.ca_file}
    monkeypatch.setenv("AIRFLOW_CONN_S", json.dumps({**made, "password": PASSWORD}))
    assert CdcOpenSearchHook("s").test_connection() == (True, "CDC OpenSearch sink: connection works")
    monkeypatch.setenv("AIRFLOW_CONN_S", json.dumps({**made, "password": WRONG}))
    works, said = CdcOpenSearchHook("s").test_connection()
    assert (works, WRONG in said) == (False, False)
    assert "Check login and password" in said
