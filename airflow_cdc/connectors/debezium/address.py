"""Temporarily change the address that a connector reads from, and restore it."""

from __future__ import annotations

from collections.abc import Mapping

# A detour stores the old values in the same configuration, under this prefix: backup and change are written together,
# and a password is not copied elsewhere. A connector ignores settings that it does not know.
WAS = "cdc.detour.was."
_ADDRESS = ("database.hostname", "database.port")
_LOGIN = ("database.user", "database.password")


def is_away(config: Mapping[str, str]) -> bool:
    """Whether this configuration is one that a detour changed."""
    return any(key.startswith(WAS) for key in config)


def pointed_at(config: Mapping[str, str], address: tuple[str, int], login: tuple[str, str] | None) -> dict[str, str]:
    """The configuration with another address, and another login if one is given; it also keeps the old values."""
    values = dict(zip(_ADDRESS, (address[0], str(address[1])), strict=True))
    values |= dict(zip(_LOGIN, login, strict=True)) if login else {}
    home = pointed_back(config)
    return {**home, **values, **{WAS + key: home.get(key, "") for key in values}}


def pointed_back(config: Mapping[str, str]) -> dict[str, str]:
    """The configuration as it was before the detour. A setting that was absent is left out again."""
    settings = {key.removeprefix(WAS): value for key, value in config.items() if key.startswith(WAS)}
    rest = {key: value for key, value in config.items() if not key.startswith(WAS) and key not in settings}
    return {**rest, **{key: value for key, value in settings.items() if value}}
