"""An authority of a test's own, and a server certificate for 127.0.0.1 that it signs."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the authority, another authority that signed nothing, and the server's certificate and key."""

    authority: Path
    stranger: Path
    certificate: Path
    key: Path


def make_certificates(folder: Path) -> Certificates:
    """Make them in `folder`."""
    authority_key, server_key = _key(), _key()
    authority = _certificate("test authority", authority_key, "test authority", authority_key, authority=True)
    stranger_key = _key()
    made = {
        "ca.pem": authority,
        "stranger.pem": _certificate("stranger", stranger_key, "stranger", stranger_key, authority=True),
        "server.pem": _certificate("localhost", server_key, "test authority", authority_key, authority=False),
    }
    for name, certificate in made.items():
        (folder / name).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pem = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.key").write_bytes(pem)
    (folder / "server.key").chmod(0o600)
    return Certificates(folder / "ca.pem", folder / "stranger.pem", folder / "server.pem", folder / "server.key")


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _certificate(
    subject: str, key: rsa.RSAPrivateKey, issuer: str, issuer_key: rsa.RSAPrivateKey, *, authority: bool
) -> x509.Certificate:
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    builder = builder if authority else builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
