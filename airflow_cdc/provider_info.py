"""This provider's declaration for Airflow. An error here breaks `import airflow`, so nothing of Airflow is imported."""

from __future__ import annotations

from typing import Any

from airflow_cdc.config.settings import OPTIONS
from airflow_cdc.kinds import TRANSPORTS, WINGS

NAME = "CDC"
PACKAGE = "airflow-provider-cdc"


def get_provider_info() -> dict[str, Any]:
    """The provider's declaration, as airflow/provider_info.schema.json describes it."""
    forms = _forms()
    return {
        "package-name": PACKAGE,
        "name": NAME,
        "description": "Diagnoses, recovers and proves change-data-capture pipelines whose position was lost.",
        "integrations": [
            {
                "integration-name": NAME,
                "external-doc-url": "https://en.wikipedia.org/wiki/Change_data_capture",
                "tags": ["software"],
            }
        ],
        "connection-types": forms,
        "hooks": [_modules("hooks", *(form["hook-class-name"].split(".")[2] for form in forms))],
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


def _forms() -> list[dict[str, Any]]:
    """The connection types of the built-in kinds, each once. Other distributions declare theirs themselves."""
    kinds = (wing[name] for wing in WINGS.values() for name in wing.built_in)
    forms = [kind.form.load() for kind in kinds if kind.form is not None]
    forms += [one.registry.form.load() for one in (TRANSPORTS[name] for name in TRANSPORTS.built_in) if one.registry]
    return list({form["connection-type"]: form for form in forms}.values())


def _modules(package: str, *names: str) -> dict[str, Any]:
    return {"integration-name": NAME, "python-modules": [f"airflow_cdc.{package}.{name}" for name in names]}


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
