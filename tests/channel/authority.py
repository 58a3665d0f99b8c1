"""A certificate authority of the tests' own, made by the program openssl."""

from __future__ import annotations

import ipaddress
import subprocess
from pathlib import Path

EXTENSIONS = """\
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = {}
"""


def certificate(folder: Path, names: tuple[str, ...] = ("localhost", "127.0.0.1")) -> tuple[Path, Path, Path]:
    """Make an authority and a server's certificate, valid for a day.

    Args:
        folder: where the files go; it is made.
        names: the server's names and addresses.

    Returns:
        The authority's certificate, the server's certificate and its key.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ca, ca_key, cert, key, request, extensions = (
        folder / name for name in ("ca.pem", "ca.key", "server.pem", "server.key", "server.csr", "server.ext")
    )
    extensions.write_text(EXTENSIONS.format(", ".join(map(_alternative, names))), encoding="utf-8")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    own = ["-x509", "-subj", "/CN=Authority of the tests", "-days", "1", "-addext", "keyUsage=critical,keyCertSign"]
    _openssl("req", *curve, *own, "-keyout", ca_key, "-out", ca)
    _openssl("req", *curve, "-subj", "/CN=" + names[0], "-keyout", key, "-out", request)
    signed = ["-CA", ca, "-CAkey", ca_key, "-set_serial", "1", "-days", "1", "-extfile", extensions]
    _openssl("x509", "-req", "-in", request, *signed, "-out", cert)
    return ca, cert, key


def _alternative(name: str) -> str:
    """A name as openssl wants it in subjectAltName."""
    try:
        return "IP:{}".format(ipaddress.ip_address(name))
    except ValueError:
        return "DNS:" + name


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
