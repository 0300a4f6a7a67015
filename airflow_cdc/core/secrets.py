"""The masker: keeping secrets out of what people see, whether connector configs, traces, pasted logs or error texts.

There is only one: two maskers with different words would each let through what the other masks. If the end of a value
is in doubt, it masks too much rather than too little. It knows the secrets of this process's pipelines by value (`remember`).

It runs in the event loop that watches all pipelines, and texts come from other systems. So its time grows only with a text's
length: what comes before a value has a limited length, and a value that has begun is always taken to its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

MASK: Final = "***"

# Parts of a setting's name that make its value a secret, in the words that Python's and Java's expressions share.
_WORDS: Final = (
    r"password|passwd|pwd|passphrase|secret|token|credential|authorization|cookie|sasl[.]jaas"
    r"|basic[.]auth[.]user[.]info|connection[._-]?string"
    r"|(?:api|access|account|private|encryption|shared)[._-]?key"
)
_SAS: Final = r"(?:^|[._-])sas(?:[._-]|$)"
_SECRET_WORDS: Final = re.compile(rf"{_WORDS}|{_SAS}", re.IGNORECASE)
# "key" alone is ambiguous: a private key is a secret; key.converter, message.key.columns and key stores are not.
_SECRET_KEY: Final = re.compile(r"(?:^|[._-])(?:ssl|keystore)?[._-]?key$", re.IGNORECASE)
_NOT_SECRET: Final = re.compile(
    r"(?:location|converter|columns|enable|enabled|type|class|path|file|partitions)$", re.IGNORECASE
)
# Spark hides the values of matching settings in its UI and its event log. A catalog's address may hold a login.
SPARK_REDACTION: Final = rf"(?i){_WORDS}|{_SAS}|[.]uri$|adls[.]|fs[.]azure|fs[.]gs"

# the name column.mask.hash.SHA-256.with.salt.<salt> contains a secret itself
_SALT: Final = re.compile(r"(\.with\.salt\.)(.+)$")
# references such as ${file:/run/secrets:pw} only point to a secret
_REFERENCE: Final = re.compile(r"\$\{[^{}]+\}")

# a value in quotes, whose end is the text's if there is none; quotes may be escaped as often as their text was quoted
_QUOTED: Final = (
    r"(?P<esc>\\{1,8}[\"'])(?:(?!(?P=esc)).)*(?:(?P=esc)|\Z)"
    r"|\"(?:[^\"\\]|\\.)*(?:\"|\\?\Z)|'(?:[^'\\]|\\.|'')*(?:'|\\?\Z)"
)
_VALUE: Final = rf"(?:{_QUOTED}|[^\s,;&\"']+)"
_NAME: Final = rf"(?:{_WORDS})[\w.\-]{{0,64}}"
_FLAGS: Final = re.IGNORECASE | re.DOTALL
_PEM: Final = re.compile(r"(-----BEGIN [A-Z0-9 ]{1,60}-----)(?:.*?-----END [A-Z0-9 ]{1,60}-----|.*)", _FLAGS)
_ADDRESS: Final = re.compile(r"://\S+")
_HEADER: Final = re.compile(
    rf"((?:authorization|cookie)\\{{0,8}}[\"']?\s{{0,8}}[=:]\s{{0,8}})(?:{_QUOTED}|[^\r\n]+)", _FLAGS
)
_BEARER: Final = re.compile(r"(\bbearer\s{1,8})[\w.~+/=\-]{16,}", _FLAGS)
_SQL: Final = re.compile(
    rf"(\b(?:identified\s{{1,8}}(?:with\s{{1,8}}\S{{1,64}}\s{{1,8}})?(?:by|as)\s{{1,8}}(?:password\s{{1,8}})?"
    rf"|password(?:\s{{1,8}}|\s{{0,8}}\(\s{{0,8}})(?=\\{{0,8}}[\"'])))(?:{_QUOTED}|\S+)",
    _FLAGS,
)
_OPTION: Final = re.compile(rf"(?<![\w\-])(--[\w.\-]{{1,64}})(\s{{1,8}}){_VALUE}", _FLAGS)
_SIGNED: Final = re.compile(
    r"((?<![a-z0-9])(?:sig|signature|x-(?:amz|goog)-(?:signature|credential)|awsaccesskeyid|googleaccessid)=)[^\s&\"',;]+",
    _FLAGS,
)
_IN_TEXT: Final = re.compile(rf"({_NAME}\\{{0,8}}[\"']?\s{{0,8}}[=:]\s{{0,8}}){_VALUE}", _FLAGS)
_PORT: Final = re.compile(r"\d{1,5}(?!\w)")

_SHORTEST: Final = 4
_MOST: Final = 2_000
_known: dict[str, None] = {}


def remember(secrets: Iterable[str]) -> None:
    """Mask these values in every text of this process from now on, also where nothing names them."""
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            _known[secret] = None
    for oldest in list(_known)[:-_MOST]:
        _known.pop(oldest, None)


def is_secret(name: str) -> bool:
    """True when a setting of this name holds a secret."""
    if _NOT_SECRET.search(name):
        return False
    return bool(_SECRET_WORDS.search(name) or _SECRET_KEY.search(name))


def mask_config(config: Mapping[str, str]) -> dict[str, str]:
    """A connector config that may be shown: secret values are replaced by ***."""
    return {_SALT.sub(rf"\g<1>{MASK}", name): _mask_value(name, value) for name, value in config.items()}


def mask_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Free text that may be shown: known secrets, and what is written like one, are replaced."""
    long = (one for one in (*_known, *secrets) if len(one) >= _SHORTEST)
    known = {form for one in long for form in (one, quote(one, safe=""), json.dumps(one)[1:-1])}
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    text = _PEM.sub(rf"\g<1>{MASK}", text)
    text = _ADDRESS.sub(lambda match: "://".join(map(_without_login, match[0].split("://"))), text)
    text = _OPTION.sub(lambda match: f"{match[1]}{match[2]}{MASK}" if is_secret(match[1]) else match[0], text)
    for expression in (_HEADER, _BEARER, _SQL, _SIGNED, _IN_TEXT):
        text = expression.sub(rf"\g<1>{MASK}", text)
    return text


def secrets_of(config: Mapping[str, str]) -> tuple[str, ...]:
    """The secret values in a config, to be kept out of texts about it."""
    return tuple(
        str(value) for name, value in config.items() if is_secret(name) and not _REFERENCE.fullmatch(str(value))
    )


def _without_login(address: str) -> str:
    """What follows "://" in a text, up to a space: login:password@ is masked. A login alone is not, nor is host:port/a@b."""
    login, at, rest = address.rpartition("@")
    user, colon, password = login.partition(":")
    if not at or not colon or set(user) & set("/?#\"'<>,") or _PORT.match(password):
        return address
    return f"{MASK}@{rest}"


def _mask_value(name: str, value: str) -> str:
    text = str(value)
    if _REFERENCE.fullmatch(text):
        return text
    return MASK if is_secret(name) else mask_text(text)
