"""The jars that Spark needs besides its own, and whether the configured jars and packages include them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

SCALA_OF_SPARK = {"3": "2.12", "4": "2.13"}


class Of(StrEnum):
    """What an artifact was built for, according to its name."""

    ANY = "any"
    SCALA = r"_(?P<scala>\d+\.\d+)"
    BUNDLE = r"(?P<spark>\d+\.\d+)-bundle_(?P<scala>\d+\.\d+)"
    SPARK_AND_SCALA = r"-(?P<spark>\d+\.\d+)_(?P<scala>\d+\.\d+)"


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that Spark must find on its class path.

    Attributes:
        package: the Maven coordinates, with {spark}, {minor} and {scala} of the installed Spark.
        entry: a class file in it, which identifies a jar of any name.
        comes_with: the need whose package includes this one; only jars have to be listed one by one.
    """

    artifact: str
    why: str
    package: str
    entry: str
    built_for: Of = Of.ANY
    comes_with: Need | None = None

    def found_in(self, name: str) -> re.Match[str] | None:
        """Whether a jar's path or a package's coordinates name this artifact."""
        suffix = "" if self.built_for is Of.ANY else self.built_for
        return re.search(rf"(?:^|[/:]){re.escape(self.artifact)}{suffix}(?:[-:]|$)", name)


@dataclass(frozen=True, slots=True)
class SparkVersion:
    """The installed Spark, and the Scala version that it is built with."""

    full: str

    @property
    def minor(self) -> str:
        return ".".join(self.full.split(".")[:2])

    @property
    def scala(self) -> str:
        return SCALA_OF_SPARK.get(self.full.partition(".")[0], "")

    def package(self, need: Need) -> str:
        """The Maven coordinates of the need, for this Spark."""
        return need.package.format(spark=self.full, minor=self.minor, scala=self.scala)


@dataclass(frozen=True, slots=True)
class GivenJars:
    """The jars and packages for spark-submit.

    Attributes:
        jars: paths or URLs of jars.
        packages: Maven coordinates; their dependencies are fetched too.
        classes: the wanted entries that were found inside local jars.
    """

    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    classes: frozenset[str] = frozenset()

    def has(self, need: Need) -> bool:
        """Whether a jar or a package contains it."""
        named = any(map(need.found_in, (*self.jars, *self.packages)))
        return (
            named
            or need.entry in self.classes
            or (need.comes_with is not None and any(map(need.comes_with.found_in, self.packages)))
        )


def missing(jars: GivenJars, needs: Iterable[Need]) -> tuple[Need, ...]:
    """The needs that are not met."""
    return tuple(need for need in needs if not jars.has(need))


def misfits(jars: GivenJars, spark: SparkVersion, needs: Collection[Need]) -> tuple[str, ...]:
    """Jars and packages that were built for another Spark or Scala, each with what it is for."""
    here = {"spark": spark.minor, "scala": spark.scala}
    names = (*jars.jars, *jars.packages)
    versions = [(name, match.groupdict()) for name in names for need in needs if (match := need.found_in(name))]
    return tuple(
        f"{name.rpartition('/')[2]} is for {', '.join(f'{part.title()} {version}' for part, version in own.items())}"
        for name, own in versions
        if not own.items() <= here.items()
    )
