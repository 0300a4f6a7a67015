"""What this provider tells Airflow about itself. A mistake here stops `import airflow`: nothing of Airflow is imported."""

from __future__ import annotations

from typing import Any

from airflow_cdc.config.settings import OPTIONS

NAME = "CDC"
PACKAGE = "airflow-provider-cdc"


def get_provider_info() -> dict[str, Any]:
    """The provider's declaration, as airflow/provider_info.schema.json describes it."""
    return {
        "package-name": PACKAGE,
        "name": NAME,
        "description": "Diagnoses, recovers and proves change-data-capture pipelines whose position was lost.",
        "integrations": [
            {
                "integration-name": NAME,
                "external-doc-url": "https://debezium.io/documentation/",
                "tags": ["software"],
            }
        ],
        "connection-types": [_mysql(), _postgres(), _kafka_connect(), _kafka(), _iceberg(), _sql_control()],
        "hooks": [_modules("hooks", "mysql", "postgres", "kafka_connect", "kafka", "iceberg", "sql_control")],
        "operators": [
            _modules(
                "operators",
                "diagnose",
                "approval",
                "policy_approval",
                "ask_again",
                "open",
                "abandon",
                "connector",
                "hold",
                "watermark",
                "spark",
                "offset",
                "publish",
                "report",
                "repair",
                "watch",
            )
        ],
        "sensors": [_modules("sensors", "binlog", "gtid")],
        "triggers": [_modules("triggers", "availability", "watch")],
        "notifications": ["airflow_cdc.notifications.webhook.WebhookNotifier"],
        "extra-links": ["airflow_cdc.links.ReportLink", "airflow_cdc.links.DataDocsLink"],
        "cli": ["airflow_cdc.cli.definition.get_cdc_cli_commands"],
        "config": {"cdc": _config()},
    }


def _modules(package: str, *names: str) -> dict[str, Any]:
    return {"integration-name": NAME, "python-modules": [f"airflow_cdc.{package}.{name}" for name in names]}


def _field(label: str, description: str = "", **schema: Any) -> dict[str, Any]:
    """One form field; text unless `schema` says otherwise."""
    field: dict[str, Any] = {"label": label, "schema": {"type": ["string", "null"], **schema}}
    return {**field, "description": description} if description else field


def _mysql() -> dict[str, Any]:
    return {
        "connection-type": "cdc_mysql",
        "hook-class-name": "airflow_cdc.hooks.mysql.CdcMySqlHook",
        "hook-name": "CDC MySQL source",
        "ui-field-behaviour": {
            "hidden-fields": ["schema"],
            "relabeling": {"login": "User"},
            "placeholders": {"host": "mysql.example", "port": "3306", "login": "cdc"},
        },
        "conn-fields": {
            "ssl_mode": _field(
                "TLS mode",
                "disabled, preferred, required, verify_ca or verify_identity",
                enum=["disabled", "preferred", "required", "verify_ca", "verify_identity", None],
                default="preferred",
            ),
            "ssl_ca": _field("TLS: CA file", "Path of the authority's certificate"),
            "ssl_cert": _field("TLS: client certificate", "Path"),
            "ssl_key": _field("TLS: client key", "Path"),
            "ssl_key_password": _field("TLS: password of the client key", format="password"),
            "connect_timeout": _field("Connect timeout (s)", type=["integer", "null"], default=10),
            "read_timeout": _field("Read timeout (s)", type=["integer", "null"], default=3600),
        },
    }


def _postgres() -> dict[str, Any]:
    fields = _mysql()["conn-fields"]
    return {
        "connection-type": "cdc_postgres",
        "hook-class-name": "airflow_cdc.hooks.postgres.CdcPostgresHook",
        "hook-name": "CDC PostgreSQL source",
        "ui-field-behaviour": {
            "hidden-fields": [],
            "relabeling": {"login": "User", "schema": "Database"},
            "placeholders": {"host": "postgres.example", "port": "5432", "login": "cdc", "schema": "shop"},
        },
        "conn-fields": fields,
    }


def _kafka_connect() -> dict[str, Any]:
    return {
        "connection-type": "kafka_connect",
        "hook-class-name": "airflow_cdc.hooks.kafka_connect.KafkaConnectHook",
        "hook-name": "Kafka Connect",
        "ui-field-behaviour": {
            "hidden-fields": [],
            "relabeling": {"schema": "Scheme", "host": "Host or URL"},
            "placeholders": {"host": "http://connect.example:8083", "schema": "http"},
        },
        "conn-fields": {
            "verify": _field("Check the TLS certificate", type=["boolean", "null"], default=True),
            "ca_file": _field("TLS: CA file", "Path; takes the place of the system's authorities"),
        },
    }


def _kafka() -> dict[str, Any]:
    protocols = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", None]
    return {
        "connection-type": "cdc_kafka",
        "hook-class-name": "airflow_cdc.hooks.kafka.CdcKafkaHook",
        "hook-name": "CDC Kafka transport",
        "ui-field-behaviour": {
            "hidden-fields": ["schema"],
            "relabeling": {"login": "SASL user", "password": "SASL password"},
        },
        "conn-fields": {
            "bootstrap.servers": _field("Bootstrap servers", "host:port,host:port"),
            "security.protocol": _field("Security protocol", enum=protocols, default="PLAINTEXT"),
            "sasl.mechanism": _field("SASL mechanism", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
            "ssl.cafile": _field("TLS: CA file", "Path"),
            "ssl.certfile": _field("TLS: client certificate", "Path"),
            "ssl.keyfile": _field("TLS: client key", "Path"),
        },
    }


def _iceberg() -> dict[str, Any]:
    return {
        "connection-type": "iceberg_catalog",
        "hook-class-name": "airflow_cdc.hooks.iceberg.IcebergCatalogHook",
        "hook-name": "Iceberg catalog",
        "ui-field-behaviour": {
            "hidden-fields": ["schema", "port"],
            "relabeling": {"host": "URI", "login": "Client id", "password": "Client secret or token"},
            "placeholders": {
                "host": "https://catalog.example",
                "extra": '{"type": "rest", "warehouse": "s3://bucket/warehouse"}',
            },
        },
        "conn-fields": {
            "type": _field("Catalog type", "rest, sql, hive or glue"),
            "warehouse": _field("Warehouse", "Folder or URL under which new tables are made"),
        },
    }


def _sql_control() -> dict[str, Any]:
    dialects = ["postgres", "mysql", "sqlite", None]
    return {
        "connection-type": "cdc_sql_control",
        "hook-class-name": "airflow_cdc.hooks.sql_control.SqlControlHook",
        "hook-name": "CDC control database",
        "ui-field-behaviour": {
            "hidden-fields": [],
            "relabeling": {"schema": "Database", "login": "User", "host": "Host, or the file of a SQLite database"},
            "placeholders": {"host": "postgres.example", "schema": "cdc"},
        },
        "conn-fields": {"dialect": _field("Dialect", "postgres, mysql or sqlite", enum=dialects, default="postgres")},
    }


def _config() -> dict[str, Any]:
    """The options as Airflow lists them. It formats defaults with its own variables: a brace in one stops `import airflow`."""
    return {
        "description": "Recovery of change-data-capture pipelines.",
        "options": {
            option.name: {
                "description": option.description + (f"\nEmpty: {option.unset}." if option.unset else ""),
                "version_added": "0.1.0",
                "type": "string",
                "example": option.example,
                "default": option.default or None,
            }
            for option in OPTIONS
        },
    }
