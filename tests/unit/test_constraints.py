"""Every pin of constraints.txt can be installed on every Python that pyproject.toml promises."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints.txt"


def pins(python: str) -> dict[str, str]:
    """Project name -> pinned version, as pip on `python` reads the file."""
    found: dict[str, str] = {}
    for line in CONSTRAINTS.read_text().splitlines():
        pin = Requirement(line)
        environment = {"python_version": python, "python_full_version": f"{python}.0"}
        if pin.marker is None or pin.marker.evaluate(environment):
            name = canonicalize_name(pin.name)
            assert name not in found, f"two pins of {name} for Python {python}"
            assert pin.url is None and [s.operator for s in pin.specifier] == ["=="]
            found[name] = next(iter(pin.specifier)).version
    return found


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_no_pin_asks_for_another_python(python):
    wrong = []
    pinned = pins(python)
    for package in metadata.distributions():
        needs = package.metadata.get("Requires-Python")
        name = canonicalize_name(package.metadata["Name"])
        if needs is None or pinned.get(name) != package.version:
            continue
        if not SpecifierSet(needs).contains(f"{python}.0"):
            wrong.append(f"{name}=={package.version} needs Python {needs}")
    assert wrong == []


def test_same_projects_on_every_python():
    """A project pinned for some Pythons only is one that the others do not need."""
    oldest, newest = set(pins("3.10")), set(pins("3.14"))
    assert newest - oldest == set()
    assert oldest - newest <= {"exceptiongroup", "tomli"}
