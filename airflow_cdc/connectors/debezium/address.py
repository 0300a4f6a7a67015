"""The address that a connector reads at, changed for a while and put back."""

from __future__ import annotations

from collections.abc import Mapping

# What a detour changes is kept beside it, under this prefix: the backup stands or falls with the change, and a password
# stays where it was. A connector passes over settings that it does not know.
WAS = "cdc.detour.was."
_ADDRESS = ("database.hostname", "database.port")
_LOGIN = ("database.user", "database.password")


def is_away(config: Mapping[str, str]) -> bool:
    """Whether this configuration is one that a detour changed."""
    return any(key.startswith(WAS) for key in config)


def pointed_at(config: Mapping[str, str], address: tuple[str, int], login: tuple[str, str] | None) -> dict[str, str]:
    """The configuration with another address, and with another login if one is given; what was there is kept in it."""
    values = dict(zip(_ADDRESS, (address[0], str(address[1])), strict=True))
    values |= dict(zip(_LOGIN, login, strict=True)) if login else {}
    home = pointed_back(config)
    return {**home, **values, **{WAS + key: home.get(key, "") for key in values}}


def pointed_back(config: Mapping[str, str]) -> dict[str, str]:
    """The configuration as it was before the detour. A setting that was absent is left out again."""
    settings = {key.removeprefix(WAS): value for key, value in config.items() if key.startswith(WAS)}
    rest = {key: value for key, value in config.items() if not key.startswith(WAS) and key not in settings}
    return {**rest, **{key: value for key, value in settings.items() if value}}
