"""What the provider is made of, as a CycloneDX document: its Python packages as installed here, and the driver's jars."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from typing import Final

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stack.fetch import Jar, jars_of

PRODUCT: Final = Requirement("airflow-provider-cdc[all]")
# the jars that a user's Spark is given; the others are servers that only the demo and the tests run
JAR_SETS: Final = ("spark", "spark-s3")


def document() -> str:
    """The document, CycloneDX 1.6 in JSON. Raises PackageNotFoundError if a package of it is not installed."""
    needs = _closure(PRODUCT)
    components = {name: _python(distribution(name)) for name in needs}
    bom = Bom()
    bom.metadata.component = components[canonicalize_name(PRODUCT.name)]
    bom.components = {part for part in components.values() if part is not bom.metadata.component}
    for name, part in components.items():
        bom.register_dependency(part, [components[other] for other in sorted(needs[name])])
    jars = [_jar(jar) for name in JAR_SETS for jar in jars_of(name)]
    bom.components.update(jars)
    bom.register_dependency(bom.metadata.component, [*_direct(components, needs), *jars])
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def names() -> frozenset[str]:
    """Every package that an installation with every extra has here, without the provider itself."""
    return frozenset(_closure(PRODUCT)) - {canonicalize_name(PRODUCT.name)}


def _direct(components: dict[str, Component], needs: dict[str, set[str]]) -> list[Component]:
    return [components[name] for name in sorted(needs[canonicalize_name(PRODUCT.name)])]


def _closure(product: Requirement) -> dict[str, set[str]]:
    """Each package that the product needs, itself too, with those that it needs itself."""
    needs: dict[str, set[str]] = {}
    left, seen = deque([product]), set[tuple[str, frozenset[str]]]()
    while left:
        asked = left.popleft()
        name, extras = canonicalize_name(asked.name), frozenset(asked.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found = list(_requirements(distribution(name), extras))
        left.extend(found)
        # an extra of the package itself is no dependency on itself
        needs.setdefault(name, set()).update({canonicalize_name(one.name) for one in found} - {name})
    return needs


def _requirements(package: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    """What a package needs here, with these extras."""
    for text in package.requires or ():
        wanted = Requirement(text)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield wanted


def _python(package: Distribution) -> Component:
    name = canonicalize_name(package.metadata["Name"])
    purl = PackageURL("pypi", name=name, version=package.version)
    return Component(
        type=ComponentType.LIBRARY, name=name, version=package.version, purl=purl, bom_ref=purl.to_string()
    )


def _jar(jar: Jar) -> Component:
    version = jar.wanted.version
    purl = PackageURL("maven", namespace=jar.group, name=jar.artifact, version=version)
    return Component(
        type=ComponentType.LIBRARY,
        group=jar.group,
        name=jar.artifact,
        version=version,
        purl=purl,
        bom_ref=purl.to_string(),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=jar.sha256)],
    )
