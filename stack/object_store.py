"""A real object store with S3's interface, on a folder and on loopback: S3Proxy."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stack import fetch, versions
from stack.kafka import is_open, properties, quick
from stack.ports import HOST, free_port
from stack.process import Child, spawn, wait_until

BUCKET: Final = "lake"
HEAP: Final = "256m"
REGION: Final = "us-east-1"
START_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A running store with one bucket. `url`: its endpoint; `key` and `secret`: its only login."""

    url: str
    key: str
    secret: str = field(repr=False)
    folder: Path
    child: Child
    version: str = versions.S3PROXY

    def iceberg(self) -> Mapping[str, str]:
        """Properties of a catalog with its warehouse in it, by names that PyIceberg and Iceberg's Java client share."""
        return {
            "warehouse": f"s3://{BUCKET}/warehouse",
            "s3.endpoint": self.url,
            "s3.access-key-id": self.key,
            "s3.secret-access-key": self.secret,
            "s3.path-style-access": "true",
            "client.region": REGION,
        }


def start_object_store(base: Path, logs: Path) -> ObjectStore:
    """Start a store under `base/object-store`, with its bucket, and wait until it answers."""
    folder = base / "object-store"
    (folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
    address = f"{HOST}:{free_port()}"
    key, secret = "cdc", secrets.token_hex(12)
    settings = folder / "s3proxy.properties"
    _write(settings, f"http://{address}", key, secret, folder / "data")
    argv = [fetch.java(), *quick(HEAP), "-jar", str(fetch.set_jars("object-store")[0]), "--properties", str(settings)]
    child = spawn("object-store", argv, log=logs / "object-store.log")
    wait_until(lambda: is_open(address) or None, timeout=START_TIMEOUT_S, what=f"S3Proxy on {address}", child=child)
    return ObjectStore(f"http://{address}", key, secret, folder, child)


def _write(path: Path, url: str, key: str, secret: str, data: Path) -> None:
    written = {
        "s3proxy.endpoint": url,
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": key,
        "s3proxy.credential": secret,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(data),
    }
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(properties(written))
