"""MySQL 9.7 from Debian's unstable packages, unpacked beside the system: no root, nothing installed.

The packages come from the Debian mirror that this machine's own apt already uses, through apt-get with a state of its
own (so their signatures are checked), with every library down to libc: the server runs on the loader among them.
Unstable moves on, so no lock file can name its checksums in advance: what was fetched is kept by checksum and written
to a manifest in the cache, which later runs use without the network.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stack import fetch
from stack.errors import StackError, UnavailableError, log_tail

PACKAGE = "mysql-server-core"
SUITE = "sid"
SERIES = "9.7"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_TIMEOUT_S = 600.0
# dependencies of the package's helper scripts, not of mysqld
_NOT_NEEDED = ("perl", "libperl", "libgdbm", "libdb5")


@dataclass(frozen=True, slots=True)
class Package:
    """One fetched Debian package."""

    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was fetched: MySQL's package version and every package by checksum."""

    version: str
    packages: tuple[Package, ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Manifest:
        return cls(value["version"], tuple(Package(**one) for one in value["packages"]))


def unpacked() -> Path:
    """The folder that holds the unpacked packages; fetched the first time. Raises UnavailableError."""
    base = fetch.cache_dir() / f"mysql-{SERIES}"
    base.mkdir(parents=True, exist_ok=True)
    with (base / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        manifest = read_manifest() or _fetch(base)
        return _unpack(base, manifest)


def read_manifest() -> Manifest | None:
    """The manifest in the cache, if every package it names is there unchanged."""
    base = fetch.cache_dir() / f"mysql-{SERIES}"
    try:
        manifest = Manifest.from_json(json.loads((base / "manifest.json").read_text()))
    except FileNotFoundError:
        return None
    intact = all(_intact(base / "packages" / one.file, one.sha256) for one in manifest.packages)
    return manifest if intact else None


def _intact(path: Path, sha256: str) -> bool:
    return path.is_file() and fetch.sha256_of(path) == sha256


def _unpack(base: Path, manifest: Manifest) -> Path:
    root = base / f"root-{manifest.version.replace(':', '_')}"
    if root.exists():
        return root
    part = base / "root.part"
    shutil.rmtree(part, ignore_errors=True)
    for one in manifest.packages:
        _run(["dpkg-deb", "-x", str(base / "packages" / one.file), str(part)], base / "unpack.log")
    part.rename(root)
    return root


def _fetch(base: Path) -> Manifest:
    _need_tools()
    with tempfile.TemporaryDirectory(prefix="cdc-apt-") as tmp:
        work = Path(tmp)
        options = _apt_options(work)
        log = base / "fetch.log"
        log.unlink(missing_ok=True)
        _run(["apt-get", *options, "-q", "update"], log)
        _run(["apt-get", *options, "-q", "-y", "--download-only", "install", PACKAGE], log)
        return _keep(base, sorted((work / "cache" / "archives").glob("*.deb")))


def _keep(base: Path, files: Sequence[Path]) -> Manifest:
    needed = [path for path in files if not path.name.startswith(_NOT_NEEDED)]
    version = next((path.name.split("_")[1] for path in needed if path.name.startswith(f"{PACKAGE}_")), "")
    if not version.startswith(f"{SERIES}."):
        raise UnavailableError(f"MySQL {SERIES}: Debian {SUITE} offers {version or 'nothing'} now")
    folder = base / "packages"
    folder.mkdir(exist_ok=True)
    for path in needed:
        shutil.move(path, folder / path.name)
    manifest = Manifest(version, tuple(Package(path.name, fetch.sha256_of(folder / path.name)) for path in needed))
    (base / "manifest.json").write_text(json.dumps(asdict(manifest), indent=2))
    return manifest


def _need_tools() -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"MySQL {SERIES} comes from Debian packages, and this machine has no {tool}")
    if not KEYRING.exists():
        raise UnavailableError(f"MySQL {SERIES} comes from Debian packages, and {KEYRING} is missing")


def _mirror() -> str:
    """The Debian mirror in this machine's apt configuration."""
    listing = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(listing, capture_output=True, text=True, timeout=60, check=False)
    found = [line for line in done.stdout.split() if line.rstrip("/").endswith("/debian")]
    if not found:
        raise UnavailableError(
            f"MySQL {SERIES} comes from Debian packages, and this machine's apt has no Debian mirror"
        )
    return found[0]


def _apt_options(work: Path) -> list[str]:
    """A state of its own for apt: an empty system, one source, no locks that need root."""
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    (work / "sources.list").write_text(f"deb [signed-by={KEYRING}] {_mirror()} {SUITE} main\n")
    settings = {
        "Dir::State": work / "state",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "Dir::Etc::SourceList": work / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "APT::Architecture": "amd64",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        # a mirror may be a snapshot
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "true",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def _run(argv: Sequence[str], log: Path) -> None:
    with log.open("ab") as out:
        try:
            done = subprocess.run(argv, stdout=out, stderr=out, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StackError(f"{argv[0]}: {error}") from error
    if done.returncode != 0:
        raise UnavailableError(f"MySQL {SERIES} can't be had here: {argv[0]} failed, {log}:\n{log_tail(log, 8)}")
