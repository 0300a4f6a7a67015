"""Database servers from Debian packages, unpacked beside the system: no root, nothing installed.

The packages come from the Debian mirror that this machine's own apt already uses, through apt-get with a state of its
own (so their signatures are checked), with every library down to libc: the server runs on the loader among them.
A suite moves on, so no lock file can name its checksums in advance: what was fetched is kept by checksum and written
to a manifest in the cache, which later runs use without the network.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from stack import fetch
from stack.errors import StackError, UnavailableError, log_tail

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_TIMEOUT_S = 600.0
# dependencies of the packages' helper scripts, not of the servers
_NOT_NEEDED = ("perl", "libperl", "libgdbm", "libdb5")
# libc has moved from the first to the second over the suites
_LIBS = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")
_LOADER = "ld-linux-x86-64.so.2"


@dataclass(frozen=True, slots=True)
class Release:
    """A server in Debian: `package` of `suite`, whose version must begin with `series`; `folder` is its place in the cache."""

    name: str
    series: str
    suite: str
    package: str
    folder: str

    def __str__(self) -> str:
        return f"{self.name} {self.series}"

    @property
    def base(self) -> Path:
        return fetch.cache_dir() / self.folder


MYSQL_97: Final = Release("MySQL", "9.7", "sid", "mysql-server-core", "mysql-9.7")
MARIADB_1011: Final = Release("MariaDB", "10.11", "bookworm", "mariadb-server-core", "mariadb-10.11")
MARIADB_CLIENT: Final = Release("MariaDB's client", "10.11", "bookworm", "mariadb-client-core", "mariadb-client")
MARIADB_118: Final = Release("MariaDB", "11.8", "trixie", "mariadb-server-core", "mariadb-11.8")


@dataclass(frozen=True, slots=True)
class Package:
    """One fetched Debian package."""

    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was fetched: the server's package version and every package by checksum."""

    version: str
    packages: tuple[Package, ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Manifest:
        return cls(value["version"], tuple(Package(**one) for one in value["packages"]))


def unpacked(release: Release) -> Path:
    """The folder that holds the unpacked packages; fetched the first time. Raises UnavailableError."""
    with fetch.exclusive(release.base):
        return _unpack(release, read_manifest(release) or _fetch(release))


def command(root: Path, program: str) -> tuple[str, ...]:
    """How to start a program among the unpacked packages: by their own loader, on their own libraries."""
    libs = [root / lib for lib in _LIBS if (root / lib).is_dir()]
    loader = next((lib / _LOADER for lib in libs if (lib / _LOADER).exists()), None)
    if loader is None:
        raise UnavailableError(f"no {_LOADER} among the packages in {root}; remove that folder to unpack them again")
    return (str(loader), "--library-path", ":".join(map(str, libs)), str(root / program))


def server_options(root: Path, share: Path) -> tuple[str, ...]:
    """Where a server that was built for other folders finds its own files; `share`: what does not differ by machine."""
    return (
        "--no-defaults",
        f"--lc-messages-dir={share}",
        f"--character-sets-dir={share / 'charsets'}",
        f"--plugin-dir={root / 'usr/lib/mysql/plugin'}",
    )


def read_manifest(release: Release) -> Manifest | None:
    """The manifest in the cache, if every package it names is there unchanged."""
    base = release.base
    try:
        manifest = Manifest.from_json(json.loads((base / "manifest.json").read_text()))
    except FileNotFoundError:
        return None
    intact = all(_intact(base / "packages" / one.file, one.sha256) for one in manifest.packages)
    return manifest if intact else None


def _intact(path: Path, sha256: str) -> bool:
    return path.is_file() and fetch.sha256_of(path) == sha256


def _unpack(release: Release, manifest: Manifest) -> Path:
    base = release.base
    root = base / f"root-{manifest.version.replace(':', '_')}"
    if root.exists():
        return root
    part = base / "root.part"
    shutil.rmtree(part, ignore_errors=True)
    for one in manifest.packages:
        _run(release, ["dpkg-deb", "-x", str(base / "packages" / one.file), str(part)], "unpack.log")
    part.rename(root)
    return root


def _fetch(release: Release) -> Manifest:
    _need_tools(release)
    with tempfile.TemporaryDirectory(prefix="cdc-apt-") as tmp:
        work = Path(tmp)
        options = _apt_options(release, work)
        (release.base / "fetch.log").unlink(missing_ok=True)
        _run(release, ["apt-get", *options, "-q", "update"], "fetch.log")
        _run(release, ["apt-get", *options, "-q", "-y", "--download-only", "install", release.package], "fetch.log")
        return _keep(release, sorted((work / "cache" / "archives").glob("*.deb")))


def _keep(release: Release, files: Sequence[Path]) -> Manifest:
    needed = [path for path in files if not path.name.startswith(_NOT_NEEDED)]
    version = next((_version(path) for path in needed if path.name.startswith(f"{release.package}_")), "")
    if not version.startswith(f"{release.series}."):
        raise UnavailableError(f"{release}: Debian {release.suite} offers {version or 'nothing'} now")
    folder = release.base / "packages"
    folder.mkdir(exist_ok=True)
    for path in needed:
        shutil.move(path, folder / path.name)
    manifest = Manifest(version, tuple(Package(path.name, fetch.sha256_of(folder / path.name)) for path in needed))
    (release.base / "manifest.json").write_text(json.dumps(asdict(manifest), indent=2))
    return manifest


def _version(package: Path) -> str:
    """Upstream's version with Debian's revision; apt writes an epoch into the file's name as `1%3a`."""
    return unquote(package.name.split("_")[1]).rpartition(":")[2]


def _need_tools(release: Release) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"{release} comes from Debian packages, and this machine has no {tool}")
    if not KEYRING.exists():
        raise UnavailableError(f"{release} comes from Debian packages, and {KEYRING} is missing")


def _mirror(release: Release) -> str:
    """The Debian mirror in this machine's apt configuration."""
    listing = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(listing, capture_output=True, text=True, timeout=60, check=False)
    mirrors = [line for line in done.stdout.split() if line.rstrip("/").endswith("/debian")]
    if not mirrors:
        raise UnavailableError(f"{release} comes from Debian packages, and this machine's apt has no Debian mirror")
    return mirrors[0]


def _apt_options(release: Release, work: Path) -> list[str]:
    """A state of its own for apt: an empty system, one source, no locks that need root."""
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    (work / "sources.list").write_text(f"deb [signed-by={KEYRING}] {_mirror(release)} {release.suite} main\n")
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


def _run(release: Release, argv: Sequence[str], log_name: str) -> None:
    log = release.base / log_name
    with log.open("ab") as out:
        try:
            done = subprocess.run(argv, stdout=out, stderr=out, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StackError(f"{argv[0]}: {error}") from error
    if done.returncode != 0:
        raise UnavailableError(f"{release} can't be had here: {argv[0]} failed, {log}:\n{log_tail(log, 8)}")
