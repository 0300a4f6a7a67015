"""OpenSearch's own security plugin: logins, roles, and TLS on the REST interface.

The plugin is a zip for a folder of plugins. Here its jars stand on the class path, after the node's own, because the
launcher loads plugins from there.
"""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from stack import fetch
from stack.errors import StackError
from stack.kafka import properties

_SET: Final = "opensearch-security"
_HASHER: Final = "org.opensearch.security.tools.Hasher"
_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Security:
    """What a secured node knows.

    Attributes:
        authority, certificate, key: PEM files, of its REST interface and between nodes.
        roles: as in the plugin's roles.yml. Each role has one user of its name.
        password: of each user.
    """

    authority: Path
    certificate: Path
    key: Path
    roles: Mapping[str, Mapping[str, Any]]
    password: str = field(repr=False)


def classpath(plugin: Path) -> str:
    """A Java class path over the plugin, which is unpacked to the folder `plugin` unless it is there."""
    if not plugin.is_dir():
        with zipfile.ZipFile(fetch.set_jars(_SET)[0]) as packed:
            packed.extractall(plugin)
    return f"{plugin}/*"


def prepare(security: Security, config: Path, plugin: Path) -> Path:
    """Write a node's folder `config`, and return the file with the settings that the node then needs."""
    files = {"pemtrustedcas": security.authority, "pemcert": security.certificate, "pemkey": security.key}
    config.mkdir(parents=True, exist_ok=True)
    for file in files.values():
        shutil.copy(file, config)
    settings = {
        f"plugins.security.ssl.{side}.{name}_filepath": str(config / file.name)
        for side in ("http", "transport")
        for name, file in files.items()
    }
    settings |= {
        "plugins.security.ssl.http.enabled": "true",
        "plugins.security.ssl.transport.enforce_hostname_verification": "false",
        # roles and users are taken from the files below at the first start
        "plugins.security.allow_default_init_securityindex": "true",
    }
    _write_roles(security, config / "opensearch-security", plugin)
    path = config / "security.properties"
    path.write_text(properties(settings))
    return path


def is_ready(url: str, security: Security) -> bool:
    """Whether the node at `url` has loaded its roles: it says 503 until then, and 401 to a stranger from then on."""
    try:
        with urllib.request.urlopen(  # noqa: S310
            url, timeout=5, context=ssl.create_default_context(cafile=str(security.authority))
        ):
            return True
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code != HTTPStatus.SERVICE_UNAVAILABLE
    except OSError:
        return False


def _write_roles(security: Security, folder: Path, plugin: Path) -> None:
    shutil.copytree(plugin / "config", folder, dirs_exist_ok=True)
    hashed = _hashed(security.password, plugin)
    users = {name: {"hash": hashed} for name in security.roles}
    mapped = {name: {"users": [name]} for name in security.roles}
    for kind, values in (("internal_users", users), ("roles", security.roles), ("roles_mapping", mapped)):
        meta = {"_meta": {"type": kind.replace("_", ""), "config_version": 2}}
        # JSON is YAML
        (folder / f"{kind}.yml").write_text(json.dumps(meta | dict(values)))


def _hashed(password: str, plugin: Path) -> str:
    argv = [fetch.java(), "-cp", f"{fetch.classpath('opensearch')}:{classpath(plugin)}", _HASHER, "-env", "PASSWORD"]
    done = subprocess.run(
        argv, env={"PASSWORD": password}, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise StackError(f"OpenSearch's {_HASHER} failed: {done.stderr[-300:]}")
    return done.stdout.split()[-1]
