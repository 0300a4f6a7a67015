"""The lock, the cache by checksum, and offline work; Ivy itself is replaced, the real one runs in the other suites."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stack import debian, fetch, stublib, versions
from stack.errors import StackError, UnavailableError
from stack.fetch import Jar

CONTENT = {"alpha": b"first jar", "beta": b"second jar"}


def jar(artifact: str, content: bytes | None = None) -> Jar:
    data = CONTENT[artifact] if content is None else content
    return Jar("org.example", artifact, "1.0", hashlib.sha256(data).hexdigest(), "kafka")


class FakeIvy:
    """Stands in for the download: writes the files that were asked for and counts the runs."""

    def __init__(self, offered: dict[str, bytes]) -> None:
        self.offered = offered
        self.runs: list[str] = []

    def __call__(self, work: Path, module: str, out: Path, *, settings: str | None) -> None:
        self.runs.append(module)
        for artifact, data in self.offered.items():
            if f'name="{artifact}"' in module:
                path = out / "kafka" / f"org.example__{artifact}__1.0.jar"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeIvy:
    fake = FakeIvy(dict(CONTENT))
    lock = tmp_path / "jars.lock"
    lock.write_text(f"# a comment\n{jar('alpha')}\n{jar('beta')}\n")
    monkeypatch.setattr(fetch, "_run_ivy", fake)
    monkeypatch.setattr(fetch, "LOCK_FILE", lock)
    monkeypatch.setattr(fetch, "read_lock", lambda: tuple(map(Jar.parse, lock.read_text().splitlines()[1:])))
    monkeypatch.setenv("CDC_CACHE", str(tmp_path / "cache"))
    return fake


def test_a_set_is_fetched_once_in_one_run_and_then_offline(ivy: FakeIvy) -> None:
    folder = fetch.fetch("kafka")
    assert sorted(path.read_bytes() for path in folder.iterdir()) == sorted(CONTENT.values())
    ivy.offered.clear()
    assert fetch.fetch("kafka") == folder
    assert len(ivy.runs) == 1


def test_a_damaged_file_in_the_cache_is_fetched_again(ivy: FakeIvy) -> None:
    folder = fetch.fetch("kafka")
    (folder / "alpha-1.0.jar").write_bytes(b"damaged")
    assert (fetch.fetch("kafka") / "alpha-1.0.jar").read_bytes() == CONTENT["alpha"]
    assert 'name="alpha"' in ivy.runs[1]
    assert 'name="beta"' not in ivy.runs[1]


def test_a_file_with_another_checksum_is_refused(ivy: FakeIvy) -> None:
    ivy.offered["beta"] = b"something else"
    with pytest.raises(StackError, match=r"org.example:beta:1.0: checksum .* differs"):
        fetch.fetch("kafka")
    assert not list(fetch.cache_dir().glob(f"jars/{jar('beta').sha256}/*"))


def test_a_jar_that_cannot_be_had_is_named(ivy: FakeIvy) -> None:
    del ivy.offered["beta"]
    with pytest.raises(UnavailableError, match=r"org\.example:beta:1\.0 was not found") as caught:
        fetch.fetch("kafka")
    assert caught.value.exit_status == 2


def test_the_lock_holds_every_wanted_jar_and_no_host() -> None:
    locked = {(one.set, one.wanted) for one in fetch.read_lock()}
    wanted = {(name, replace(one, deep=False)) for name, members in versions.SETS.items() for one in members}
    assert wanted <= locked
    assert "//" not in fetch.LOCK_FILE.read_text()


def test_nothing_that_connect_provides_is_in_the_plugin() -> None:
    groups = {one.group for one in fetch.jars_of("debezium")}
    assert not groups & set(versions.EXCLUDED["debezium"])


@pytest.mark.parametrize("line", ["", "a:b:c:d", "a:b:c:d:e:f"])
def test_a_malformed_line_of_the_lock_is_named(line: str) -> None:
    with pytest.raises(StackError, match="malformed line"):
        Jar.parse(line)


def test_a_locked_jar_prints_as_its_line() -> None:
    assert Jar.parse(str(jar("alpha"))) == jar("alpha")


@pytest.mark.parametrize("release", [debian.MYSQL_97, debian.MARIADB_1011], ids=str)
def test_a_server_of_debian_without_debian_says_so(
    release: debian.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(UnavailableError, match=f"{release} comes from Debian packages, .* no apt-get") as caught:
        debian.unpacked(release)
    assert caught.value.exit_status == 2


def test_packages_of_another_series_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite has moved on: what it offers now is named, and nothing is kept."""
    monkeypatch.setenv("CDC_CACHE", str(tmp_path))
    fetched = tmp_path / "mariadb-server-core_1%3a11.8.2-1_amd64.deb"
    fetched.write_bytes(b"newer")
    with pytest.raises(UnavailableError, match=r"MariaDB 10\.11: Debian bookworm offers 11\.8\.2-1 now"):
        debian._keep(debian.MARIADB_1011, [fetched])
    assert fetched.exists()
    assert debian.read_manifest(debian.MARIADB_1011) is None


def test_packages_are_kept_by_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_CACHE", str(tmp_path))
    release = debian.MARIADB_1011
    release.base.mkdir()
    names = ("libssl3_3.0_amd64.deb", "mariadb-server-core_1%3a10.11.18-0_amd64.deb", "perl-base_5.36_amd64.deb")
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    made = debian._keep(release, [tmp_path / name for name in names])
    assert made.version == "10.11.18-0"
    assert [one.file for one in made.packages] == list(names[:2])
    assert debian.read_manifest(release) == made
    (release.base / "packages" / names[0]).write_bytes(b"damaged")
    assert debian.read_manifest(release) is None


def test_an_unknown_mysql_series_ends_the_command_with_2() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stack", "fetch"],
        env={"STACK_MYSQL": "5.6", "CDC_CACHE": str(fetch.cache_dir()), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "STACK_MYSQL=5.6: known are 8.0, 9.7, mariadb" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_stand_in_library_loads_and_its_functions_return_minus_one(tmp_path: Path) -> None:
    stub = stublib.Stub("libnothing.so.7", ("one", "two_of_them"), ("pointer", "other"))
    (tmp_path / stub.soname).write_bytes(stublib.build(stub))
    library = ctypes.CDLL(str(tmp_path / stub.soname))
    assert [library.one(), library.two_of_them(1, 2)] == [-1, -1]
    assert ctypes.c_void_p.in_dll(library, "pointer").value is None
    assert not hasattr(library, "absent")


def test_only_missing_libraries_get_a_stand_in(tmp_path: Path) -> None:
    stubs = (stublib.Stub("libc.so.6", ("malloc",)), stublib.Stub("libsurelymissing.so.1", ("f",)))
    assert stublib.write_missing(tmp_path, stubs) == ("libsurelymissing.so.1",)
    assert [path.name for path in tmp_path.iterdir()] == ["libsurelymissing.so.1"]
