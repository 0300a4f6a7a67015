"""OpenSearch: one index per table, behind an alias."""

from airflow_cdc.core.kind import Lazy, SinkKind
from airflow_cdc.sinks.opensearch.kind import OpenSearchSettings

EXTRA = "opensearch"

KIND = SinkKind(
    name="opensearch",
    title="OpenSearch",
    settings=OpenSearchSettings,
    endpoint=Lazy(".endpoint:OpenSearchEndpoint", __name__),
    client=Lazy(".client:SearchSink", __name__, EXTRA),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.opensearch:CdcOpenSearchHook"),
    form=Lazy(".kind:FORM", __name__),
    stages=Lazy("airflow_cdc.spark_apps.adapters.opensearch:OpenSearchWriter", extra=EXTRA),
    letters=Lazy("airflow_cdc.spark_apps.adapters.opensearch_letters:OpenSearchLetters", extra=EXTRA),
    keeper=Lazy("airflow_cdc.spark_apps.adapters.opensearch_keeper:OpenSearchKeeper", extra=EXTRA),
    control=Lazy(".control:OpenSearchControlStore", __name__, EXTRA),
)
