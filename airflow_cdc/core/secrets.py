"""The masker: keeping secrets out of what people see, whether connector configs, traces, pasted logs or error texts.

There is only one: two maskers with different words would each let through what the other masks. If the end of a value
is in doubt, it masks too much rather than too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

MASK: Final = "***"

# Parts of a setting's name that make its value a secret.
_SECRET_WORDS: Final = re.compile(
    r"password|passwd|pwd|passphrase|secret|token|credential|sasl\.jaas|basic\.auth\.user\.info|connection\.string",
    re.IGNORECASE,
)
# "key" alone is ambiguous: a private key is a secret; key.converter, message.key.columns and key stores are not.
_SECRET_KEY: Final = re.compile(
    r"(?:^|[._-])(?:api|access|account|private|encryption|ssl|shared|keystore)?[._-]?key$", re.IGNORECASE
)
_NOT_SECRET: Final = re.compile(
    r"(?:location|converter|columns|enable|enabled|type|class|path|file|partitions)$", re.IGNORECASE
)
# the name column.mask.hash.SHA-256.with.salt.<salt> contains a secret itself
_SALT: Final = re.compile(r"(\.with\.salt\.)(.+)$")
# references such as ${file:/run/secrets:pw} only point to a secret
_REFERENCE: Final = re.compile(r"\$\{[^{}]+\}")
_IN_URL: Final = re.compile(r"(\w+://)[^/\s:@]+:[^/\s@]+@")
_IN_TEXT: Final = re.compile(
    r"((?:password|passwd|pwd|passphrase|secret|token|credential|basic\.auth\.user\.info"
    r"|(?:api|access|account|private|encryption|shared)[._-]?key)[\w.\-]*[\"']?\s*[=:]\s*)"
    r"(\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)",
    re.IGNORECASE,
)
_AUTHORIZATION: Final = re.compile(
    r"(authorization[\"']?\s*[=:]\s*[\"']?(?:basic|bearer)\s+)[^\s,;\"']+", re.IGNORECASE
)


def is_secret(name: str) -> bool:
    """True when a setting of this name holds a secret."""
    if _NOT_SECRET.search(name):
        return False
    return bool(_SECRET_WORDS.search(name) or _SECRET_KEY.search(name))


def mask_config(config: Mapping[str, str]) -> dict[str, str]:
    """A connector config that may be shown: secret values are replaced by ***."""
    return {_SALT.sub(rf"\g<1>{MASK}", name): _mask_value(name, value) for name, value in config.items()}


def mask_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Free text that may be shown: known `secrets`, passwords in URLs and password=… pairs are replaced."""
    for secret in sorted({s for s in secrets if len(s) >= 4}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    text = _IN_URL.sub(rf"\g<1>{MASK}@", text)
    text = _AUTHORIZATION.sub(rf"\g<1>{MASK}", text)
    return _IN_TEXT.sub(rf"\g<1>{MASK}", text)


def secrets_of(config: Mapping[str, str]) -> tuple[str, ...]:
    """The secret values in a config, to be kept out of texts about it."""
    return tuple(
        str(value) for name, value in config.items() if is_secret(name) and not _REFERENCE.fullmatch(str(value))
    )


def _mask_value(name: str, value: str) -> str:
    text = str(value)
    if _REFERENCE.fullmatch(text):
        return text
    return MASK if is_secret(name) else mask_text(text)
