"""How this machine reaches its package registries, read when the lab needs it and handed on to the hosts.

Mirrors, proxies and certificates differ from machine to machine, so the lab knows none by name: it reads the sources of
apt, the options of apt and pip, the resolver and the environment of the machine that it runs on.
"""

import ast
import os
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from .common import call

BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
PYTHON = "/opt/python"  # where hosts see the controller's Python
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# Options of apt by which a registry is reached. The others, such as those of container images, are the controller's own.
APT_OPTION = re.compile(r"^Acquire::(https?::|ftp::|Check-|Retries |ForceIPv|AllowInsecure|AllowWeak|Max-)", re.I)
ENVIRONMENT = re.compile(
    r"^((https?|ftp|all|no)_proxy|SSL_CERT_FILE|SSL_CERT_DIR|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE"
    r"|PIP_(CERT|CONSTRAINT|DEFAULT_TIMEOUT|DISABLE_PIP_VERSION_CHECK|EXTRA_INDEX_URL|FIND_LINKS|INDEX_URL|NO_INDEX|PROXY"
    r"|RETRIES|TRUSTED_HOST)"
    r"|UV_(DEFAULT_INDEX|EXTRA_INDEX_URL|FIND_LINKS|HTTP_TIMEOUT|INDEX|INDEX_URL|NATIVE_TLS|SYSTEM_CERTS))$",
    re.I,
)


def codename():
    """Code name of the controller's release, such as bookworm."""
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.split("=", 1)[1].strip('"')
    return ""


def _one_line(text):
    for line in text.splitlines():
        found = re.match(r"\s*deb\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s+(.+)", line.split("#", 1)[0])
        if found:
            signed = re.search(r"signed-by=(\S+)", found.group(1) or "", re.I)
            yield found.group(2), [found.group(3)], found.group(4).split(), signed.group(1) if signed else ""


def _deb822(text):
    for paragraph in re.split(r"\n\s*\n", text):
        fields = {}
        for line in paragraph.splitlines():
            if line.startswith("#"):
                continue
            name, colon, value = line.partition(":")
            if colon and not line[0].isspace():
                fields[name.strip().lower()] = value.strip()
        if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes").lower() not in ("no", "false"):
            for uri in fields.get("uris", "").split():
                yield uri, fields.get("suites", "").split(), fields.get("components", "").split(), fields.get("signed-by", "")


def apt_entries(etc=Path("/etc/apt")):
    """Debian's own entries among the controller's sources: tuples of address, kinds of suite ("", -updates ...), components.

    Other vendors' entries are left out: those with another key, other suites, or without the component main.
    """
    entries = []
    listed = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    for path in listed:
        if not path.is_file() or path.suffix not in (".list", ".sources"):
            continue
        read = _deb822 if path.suffix == ".sources" else _one_line
        for uri, suites, components, signed in read(path.read_text()):
            kinds = [suite[len(codename()) :] for suite in suites if codename() and suite.startswith(codename())]
            kinds = [kind for kind in kinds if kind in ("", "-updates", "-security")]
            if kinds and "main" in components and (not signed or "debian-archive" in signed):
                entries.append((uri, kinds, components))
    return entries


def apt_sources(suite):
    """The controller's sources for another release of Debian, in apt's own format."""
    return "\n".join(
        "Types: deb\nURIs: {}\nSuites: {}\nComponents: {}\nSigned-By: {}\n".format(
            uri, " ".join(suite + kind for kind in kinds), " ".join(components), KEYRING
        )
        for uri, kinds, components in apt_entries()
    )


def apt_options():
    """The controller's options of apt by which it reaches its registry."""
    lines = [line for line in call(["apt-config", "dump"]).stdout.splitlines() if APT_OPTION.match(line)]
    lines = [line for line in lines if not line.endswith(' "";')]
    for name in ("http", "https"):
        proxy = os.environ.get(name + "_proxy")
        if proxy and not any(line.startswith("Acquire::{}::Proxy ".format(name)) for line in lines):
            lines.append('Acquire::{}::Proxy "{}";'.format(name, proxy))
    return "".join(line + "\n" for line in lines)


def pip_options():
    """What pip is set up with on the controller, files and variables together: {section: {option: value}}."""
    sections = {}
    listed = call([sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"], check=False).stdout
    for line in listed.splitlines():
        found = re.match(r"(\S+?)\.([a-z0-9-]+)=(.*)", line)
        if found:
            section = "global" if found.group(1) == ":env:" else found.group(1)
            sections.setdefault(section, {})[found.group(2)] = " ".join(ast.literal_eval(found.group(3)).split())
    return sections


def resolver():
    """The controller's resolv.conf, that of the resolver behind it where it names a loopback address."""
    for path in (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf")):
        if path.is_file() and not re.search(r"^nameserver\s+(127\.|::1)", path.read_text(), re.M):
            return path.read_text()
    return Path("/etc/resolv.conf").read_text()


def environment():
    """Variables of the controller that a program needs to reach a registry."""
    return {name: value for name, value in sorted(os.environ.items()) if ENVIRONMENT.match(name)}


def ports():
    """TCP ports of registries and proxies."""
    found = {80, 443}
    text = apt_sources("any") + apt_options() + " ".join(environment().values())
    for address in re.findall(r"https?://[^\s\";,]+", text):
        found.add(urlsplit(address).port or 443)
    return sorted(found)


def hosts_lines():
    """Lines of the controller's /etc/hosts that name a registry."""
    text = apt_sources("any") + apt_options() + repr(pip_options())
    lines = []
    for line in Path("/etc/hosts").read_text().splitlines():
        words = line.split("#", 1)[0].split()
        if words and not words[0].startswith(("127.", "::1")) and any("//" + name in text for name in words[1:]):
            lines.append(line)
    return lines


def python_prefix():
    """Folder of the controller's Python where it is not the system's own, else None."""
    return None if sys.base_prefix.startswith("/usr") else sys.base_prefix


class Ways:
    """Everything a host gets so that it reaches the registries as the controller does.

    ``files`` maps a path on the host to its text; ``hosts`` are lines of /etc/hosts; ``folders`` are those of the
    controller that a host sees too, read-only (pip's find-links).
    """

    def __init__(self):
        """Read the controller."""
        pip, self.folders = pip_options(), []
        self.hosts = hosts_lines()
        self.files = {
            "/etc/resolv.conf": resolver(),
            "/etc/environment": "".join("{}={}\n".format(*item) for item in environment().items()),
            "/etc/pip.conf": "".join(
                "[{}]\n{}\n".format(name, "".join("{} = {}\n".format(*item) for item in options.items()))
                for name, options in pip.items()
            ),
        }
        if python_prefix():
            # One Python for hosts of different systems; its library is looked for where it was built, then by ld.so.
            self.files["/etc/ld.so.conf.d/controller-python.conf"] = PYTHON + "/lib\n"
        found = [*Path("/usr/local/share/ca-certificates").glob("*.crt"), *Path("/etc/apt/auth.conf.d").glob("*.conf")]
        for path in [BUNDLE, "/etc/apt/auth.conf", *map(str, found)]:
            self._file(path)
        for options in pip.values():
            for option, value in options.items():
                for word in value.split():
                    self._local(option, word[len("file://") :] if word.startswith("file://") else word)

    def binds(self):
        """What a host sees of the controller, as systemd-nspawn's --bind-ro takes it."""
        return [*self.folders, *("{}:{}".format(prefix, PYTHON) for prefix in [python_prefix()] if prefix)]

    def _local(self, option, path):
        if not os.path.isabs(path):
            return
        self._file(path)
        if os.path.isdir(path):
            # The pages of an index name files beside their own folder.
            folder = os.path.dirname(path.rstrip("/")) if option.endswith("index-url") else path
            if folder.strip("/") and folder not in self.folders:
                self.folders.append(folder)

    def _file(self, path):
        if os.path.isfile(path):
            self.files[path] = Path(path).read_text()
