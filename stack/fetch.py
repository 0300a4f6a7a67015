"""Jars without Maven: the Ivy inside pyspark resolves them, a lock file pins them, a cache keeps them by checksum.

`jars.lock` lists every jar as `group:artifact:version:sha256:set`, with `version@classifier` where it has one, and
`version@@zip` for a file that is a zip. A fetch downloads only what the cache lacks, in
one Ivy run without any POM, and refuses a file whose checksum differs. The second time nothing touches the network.
Where a mirror is needed, `CDC_IVY_SETTINGS` names an Ivy settings file.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import quoteattr

from stack.errors import StackError, UnavailableError
from stack.versions import EXCLUDED, JAR, JAVA_MINIMUM, ON_DEMAND, SETS, TAR_GZ, Wanted

LOCK_FILE = Path(__file__).with_name("jars.lock")
IVY_TIMEOUT_S = 900.0
USUAL = tuple(name for name in SETS if name not in ON_DEMAND)
_PATTERN = "[conf]/[organisation]__[artifact]__[revision](@[classifier]).[ext]"
_CLASSIFIER = "http://ant.apache.org/ivy/maven"
_FIELDS = 5


@dataclass(frozen=True, slots=True, order=True)
class Jar:
    """One line of the lock file. `release`: version@classifier@extension, without what is empty or `jar`."""

    group: str
    artifact: str
    release: str
    sha256: str
    set: str

    @property
    def file_name(self) -> str:
        return (
            f"{'-'.join(filter(None, (self.artifact, self.wanted.version, self.wanted.classifier)))}.{self.wanted.ext}"
        )

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.release}"

    @property
    def ivy_name(self) -> str:
        classifier = f"@{self.wanted.classifier}" if self.wanted.classifier else ""
        return f"{self.group}__{self.artifact}__{self.wanted.version}{classifier}.{self.wanted.ext}"

    @property
    def wanted(self) -> Wanted:
        """What is asked for to get this file alone."""
        version, classifier, ext, *_ = (*self.release.split("@"), "", "")
        return Wanted(self.group, self.artifact, version, classifier=classifier, ext=ext or JAR)

    @classmethod
    def parse(cls, line: str) -> Jar:
        parts = line.strip().split(":")
        if len(parts) != _FIELDS:
            raise StackError(f"malformed line in {LOCK_FILE.name}: {line!r} (want group:artifact:version:sha256:set)")
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.coordinates}:{self.sha256}:{self.set}"


def cache_dir() -> Path:
    """`$CDC_CACHE`, or `~/.cache/airflow-provider-cdc`."""
    return Path(os.environ.get("CDC_CACHE") or "~/.cache/airflow-provider-cdc").expanduser()


def read_lock(path: Path = LOCK_FILE) -> tuple[Jar, ...]:
    """Every jar of the lock file, in its order."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return tuple(Jar.parse(line) for line in lines if line and not line.startswith("#"))


def jars_of(name: str) -> tuple[Jar, ...]:
    """The locked jars of one set."""
    jars = tuple(jar for jar in read_lock() if jar.set == name)
    if not jars:
        raise StackError(f"no set {name!r} in {LOCK_FILE.name}; sets: {', '.join(SETS)}")
    return jars


def fetch(name: str) -> Path:
    """Make one set available and return its folder of jars (`<cache>/sets/<name>-<hash>/<name>`).

    The parent of that folder holds nothing else, so it can stand in Kafka Connect's `plugin.path`.
    """
    fetch_all([name])
    return set_dir(name)


def fetch_all(names: Iterable[str] = USUAL) -> None:
    """Make several sets available: missing jars are downloaded in one run, every jar is checked by checksum."""
    wanted = {name: jars_of(name) for name in names}
    with exclusive(cache_dir()):
        missing = sorted({jar for jars in wanted.values() for jar in jars if not _is_cached(jar)})
        if missing:
            _download(missing)
        for name, jars in wanted.items():
            _link(set_dir(name), jars)


def set_dir(name: str) -> Path:
    """Where a set's jars stand; the name changes with the lock, so that an old folder is never mistaken for a new."""
    digest = hashlib.sha256("\n".join(map(str, sorted(jars_of(name)))).encode()).hexdigest()[:12]
    return cache_dir() / "sets" / f"{name}-{digest}" / name


def set_jars(name: str) -> tuple[Path, ...]:
    """Paths of one set's jars; fetches what is missing."""
    folder = fetch(name)
    return tuple(folder / jar.file_name for jar in jars_of(name))


def classpath(name: str) -> str:
    """A Java class path over one set."""
    return f"{fetch(name)}/*"


def java() -> str:
    """The java command: `$JAVA_HOME/bin/java`, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if not path:
        raise UnavailableError(f"no java found; install Java {JAVA_MINIMUM}+ or set JAVA_HOME")
    return path


def java_banner() -> str:
    """What `java -version` says: version, vendor and build."""
    return subprocess.run([java(), "-version"], capture_output=True, text=True, timeout=60, check=False).stderr


def java_version() -> int:
    """The major version of `java()`."""
    said = java_banner()
    match = re.search(r'version "(\d+)', said)
    if not match:
        raise UnavailableError(f"can't read the version of {java()}: {said.strip()[:200]}")
    return int(match.group(1))


def pyspark_jars() -> Path:
    """The folder of jars inside the installed pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise UnavailableError("pyspark is not installed in this interpreter; run `make setup`")
    return Path(next(iter(spec.submodule_search_locations))) / "jars"


def make_lock() -> tuple[Jar, ...]:
    """Resolve every set with its dependencies (needs the network) and return the lock's lines."""
    with tempfile.TemporaryDirectory(prefix="cdc-ivy-") as tmp:
        out = Path(tmp) / "lib"
        _run_ivy(Path(tmp), _ivy_module(_wanted_lines()), out, settings=os.environ.get("CDC_IVY_SETTINGS"))
        return tuple(sorted(_locked(path) for path in out.glob("*/*.*")))


def write_lock(path: Path = LOCK_FILE) -> tuple[Jar, ...]:
    """Write the lock file anew."""
    jars = make_lock()
    head = "# group:artifact:version:sha256:set; written by `python -m stack lock`, never by hand\n"
    path.write_text(head + "".join(f"{jar}\n" for jar in sorted(jars, key=lambda jar: (jar.set, jar))))
    return jars


def sha256_of(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Two that fill a folder at once (two test runs, a demo) share the work instead of tearing each other's files."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _blob(jar: Jar) -> Path:
    return cache_dir() / "jars" / jar.sha256 / jar.file_name


def _is_cached(jar: Jar) -> bool:
    blob = _blob(jar)
    if not blob.is_file():
        return False
    state = blob.stat()
    if _checksum(blob, state.st_ino, state.st_size, state.st_mtime_ns) == jar.sha256:
        return True
    blob.unlink()
    return False


@cache
def _checksum(path: Path, *_state: int) -> str:
    """Of a file in this state: a run asks for the same jars with every server that it starts."""
    return sha256_of(path)


def _link(folder: Path, jars: Sequence[Jar]) -> None:
    """Hard links: a container that is given the folder sees files, not names of files elsewhere."""
    folder.mkdir(parents=True, exist_ok=True)
    for jar in jars:
        link, blob = folder / jar.file_name, _blob(jar)
        if link.exists() and not link.is_symlink() and link.samefile(blob):
            continue
        link.unlink(missing_ok=True)
        link.hardlink_to(blob)


def _download(jars: Sequence[Jar]) -> None:
    with tempfile.TemporaryDirectory(prefix="cdc-ivy-") as tmp:
        work, out = Path(tmp), Path(tmp) / "lib"
        settings = os.environ.get("CDC_IVY_SETTINGS") or _plain_settings(work)
        _run_ivy(work, _ivy_module(_locked_lines(jars)), out, settings=settings)
        for jar in jars:
            _keep(out / jar.set / jar.ivy_name, jar)


def _keep(path: Path, jar: Jar) -> None:
    if not path.is_file():
        raise UnavailableError(f"{jar.coordinates} was not found in the Maven repositories; check network and mirror")
    got = sha256_of(path)
    if got != jar.sha256:
        raise StackError(f"{jar.coordinates}: checksum {got} differs from {LOCK_FILE.name} ({jar.sha256}); not used")
    target = _blob(jar)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(path, target.with_suffix(".part"))
    target.with_suffix(".part").replace(target)


def _plain_settings(work: Path) -> str:
    """Ivy settings without POMs: the list is known whole, so 121 metadata look-ups are saved (62 s became 0)."""
    path = work / "ivysettings.xml"
    path.write_text(
        '<ivysettings><settings defaultResolver="central"/>'
        '<resolvers><ibiblio name="central" m2compatible="true" usepoms="false" checksums=""/></resolvers>'
        "</ivysettings>"
    )
    return str(path)


def _run_ivy(work: Path, module: str, out: Path, *, settings: str | None) -> None:
    ivy = next(iter(sorted(pyspark_jars().glob("ivy-*.jar"))), None)
    if ivy is None:
        raise UnavailableError(f"no ivy-*.jar in {pyspark_jars()}; this pyspark can't fetch jars")
    (work / "ivy.xml").write_text(module)
    argv = [java(), "-jar", str(ivy), "-cache", str(work / "cache"), "-ivy", str(work / "ivy.xml")]
    argv += ["-settings", settings] if settings else []
    argv += ["-retrieve", str(out / _PATTERN), "-types", JAR, "bundle", "zip", TAR_GZ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=IVY_TIMEOUT_S, check=False)
    if done.returncode != 0 or "UNRESOLVED" in done.stdout or "FAILED" in done.stdout:
        raise UnavailableError(f"Ivy could not fetch all jars (network?):\n{_complaints(done.stdout + done.stderr)}")


def _complaints(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if re.search(r"UNRESOLVED|FAILED|not found|ERROR", line)]
    return "\n".join(lines[:20]) or text[-800:]


def _ivy_module(dependencies: Iterable[str]) -> str:
    confs = "".join(f"<conf name={quoteattr(name)}/>" for name in SETS)
    excludes = "".join(
        f"<exclude org={quoteattr(org)} conf={quoteattr(name)}/>" for name, orgs in EXCLUDED.items() for org in orgs
    )
    return (
        f'<ivy-module version="2.0" xmlns:m={quoteattr(_CLASSIFIER)}><info organisation="airflow-provider-cdc" module="stack"/>'
        f"<configurations>{confs}</configurations><dependencies>{''.join(dependencies)}{excludes}</dependencies>"
        "</ivy-module>"
    )


def _dependency(conf: str, wanted: Sequence[Wanted]) -> str:
    """One module of one set. Ivy takes the last of two elements for one module, so its classifiers stand in one."""
    one = wanted[0]
    return (
        f"<dependency org={quoteattr(one.group)} name={quoteattr(one.artifact)} rev={quoteattr(one.version)} "
        f"conf={quoteattr(conf)} transitive={quoteattr(str(one.deep).lower())}>{''.join(_artifacts(wanted))}</dependency>"
    )


def _artifacts(wanted: Sequence[Wanted]) -> Iterator[str]:
    if any(one.classifier or one.ext != JAR for one in wanted):
        for one in wanted:
            classifier = f" m:classifier={quoteattr(one.classifier)}" if one.classifier else ""
            yield f'<artifact name={quoteattr(one.artifact)} type="{one.ext}" ext="{one.ext}"{classifier}/>'


def _modules(members: Iterable[Wanted]) -> Iterator[list[Wanted]]:
    return (list(group) for _, group in groupby(members, key=lambda one: (one.group, one.artifact)))


def _wanted_lines() -> Iterator[str]:
    for name, members in SETS.items():
        for module in _modules(members):
            yield _dependency(f"{name}->runtime,master" if module[0].deep else f"{name}->master", module)


def _locked_lines(jars: Sequence[Jar]) -> Iterator[str]:
    for name, locked in groupby(sorted(jars, key=lambda jar: (jar.set, jar)), key=lambda jar: jar.set):
        for module in _modules(jar.wanted for jar in locked):
            yield _dependency(f"{name}->default", module)


def _locked(path: Path) -> Jar:
    ext = TAR_GZ if path.name.endswith(f".{TAR_GZ}") else path.suffix[1:]
    group, artifact, release = path.name.removesuffix(f".{ext}").split("__")
    if ext != JAR:
        release = f"{release}{'' if '@' in release else '@'}@{ext}"
    return Jar(group, artifact, release, sha256_of(path), path.parent.name)
