"""The provider's declaration: what is wrong here stops `import airflow`."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.sdk import BaseHook, BaseOperatorLink

from airflow_cdc.provider_info import get_provider_info

SCHEMAS = Path(airflow.__file__).parent
INFO = get_provider_info()
FORMS = {form["connection-type"]: form for form in INFO["connection-types"]}


def load(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def test_fits_the_schema_of_airflow() -> None:
    jsonschema.validate(INFO, json.loads((SCHEMAS / "provider_info.schema.json").read_text()))


def test_imports_no_airflow() -> None:
    script = "import sys; from airflow_cdc.provider_info import get_provider_info; get_provider_info(); print('airflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


def test_config_defaults_survive_the_formatting_that_airflow_does() -> None:
    for option in INFO["config"]["cdc"]["options"].values():
        if option["default"] is not None:
            assert option["default"].format(AIRFLOW_HOME="x") == option["default"]


@pytest.mark.parametrize("conn_type", FORMS)
def test_form_of_a_connection_type(conn_type: str) -> None:
    form = FORMS[conn_type]
    hook = load(form["hook-class-name"])
    assert issubclass(hook, BaseHook)
    assert (hook.conn_type, hook.hook_name) == (conn_type, form["hook-name"])
    behaviour = {key.replace("-", "_"): value for key, value in form["ui-field-behaviour"].items()}
    jsonschema.validate(behaviour, json.loads((SCHEMAS / "customized_form_field_behaviours.schema.json").read_text()))
    for field in form["conn-fields"].values():
        assert field["label"]
        jsonschema.Draft202012Validator.check_schema(field["schema"])
        assert field["schema"].get("default") in (*field["schema"].get("enum", [field["schema"].get("default")]),)


@pytest.mark.parametrize("kind", ["hooks", "operators", "sensors", "triggers"])
def test_named_modules_exist(kind: str) -> None:
    for entry in INFO[kind]:
        for module in entry["python-modules"]:
            assert import_module(module).__doc__


def test_links_and_commands_exist() -> None:
    assert all(issubclass(load(path), BaseOperatorLink) for path in INFO["extra-links"])
    assert [group.name for path in INFO["cli"] for group in load(path)()] == ["cdc"]
