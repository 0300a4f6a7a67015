"""A real OpenSearch node, started for the first test that asks for it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

import stack
from airflow_cdc.sinks.opensearch.client import SearchSink
from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint
from stack.opensearch import start_opensearch
from stack.process import end

COLUMNS = (("id", "bigint"), ("a", "string"))


@pytest.fixture(scope="package")
def search_url(servers: stack.Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The node's REST interface; it ends with the last test of this folder. `CDC_TEST_SEARCH` names one that runs already."""
    if running := os.environ.get("CDC_TEST_SEARCH"):
        yield running
        return
    node = start_opensearch(tmp_path_factory.mktemp("search"), servers.logs)
    yield node.url
    if not servers.keep:
        end(node.child)


@pytest.fixture
def sink(search_url: str) -> Iterator[SearchSink]:
    """A client of the node."""
    client = SearchSink(OpenSearchEndpoint(search_url, replicas=0))
    yield client
    client.close()


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has."""
    return f"t_{uuid.uuid4().hex[:8]}"


@pytest.fixture
def shop(sink: SearchSink, namespace: str) -> SearchSink:
    """The sink with an empty table `orders` in the namespace."""
    sink.ensure_table(namespace, "orders", COLUMNS)
    return sink
