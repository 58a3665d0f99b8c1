"""Which files a launch ships, and the tar that carries them."""

import glob
import hashlib
import io
import os
import subprocess
import tarfile

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.checked import shown
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal

MAX_BYTES = 200 * 1000 * 1000
MAX_FILES = 20000


def find_script(script, stands, packaged):
    """Absolute path of the script: looked for where the user stands, then among the packaged files.

    Raises:
        Refusal: missing, a directory, or unreadable.
    """
    candidates = [script] if os.path.isabs(script) else [os.path.join(stands, script), os.path.join(packaged, script)]
    found = next((path for path in candidates if os.path.exists(path)), None)
    if found is None:
        raise Refusal(
            "found no script {} on this machine, looked at {}; correct the path".format(
                shown(script), " and ".join(os.path.normpath(path) for path in candidates)
            )
        )
    found = os.path.realpath(found)
    if os.path.isdir(found):
        raise Refusal("{} is a directory, expected a Python script; name the file in it".format(found))
    try:
        with open(found, "rb"):
            pass
    except OSError as error:
        raise Refusal("{} cannot be read ({}); chmod it".format(found, error.strerror)) from None
    return found


def git(folder, *arguments):
    """Output of a git command in ``folder``, or None where it fails or there is no git."""
    try:
        done = subprocess.run(
            ["git", "-C", folder, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
            env=dict(os.environ, LC_ALL="C"),
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired:
        raise Refusal("git gave no answer about {} within 60 s; say what to ship by ship".format(folder)) from None
    if done.returncode and b"dubious ownership" in done.stderr:
        raise Refusal(
            "git does not trust the owner of {}, so what to ship is unknown; run git config --global --add "
            "safe.directory {}, or say what to ship by ship".format(folder, folder)
        )
    return done.stdout if not done.returncode else None


def work_tree(folder):
    """Top of the git work tree around ``folder``, or None."""
    top = git(folder, "rev-parse", "--show-toplevel")
    return os.path.realpath(top.decode().rstrip("\n")) if top else None


def git_files(top):
    """Tracked and untracked-not-ignored files of a work tree that exist, submodules included; names relative to it."""
    listed = git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard") or b""
    found = []
    for name in sorted(set(os.fsdecode(item) for item in listed.split(b"\0") if item)):
        path = os.path.join(top, name)
        if os.path.isdir(path) and not os.path.islink(path):
            found += [os.path.join(name.rstrip("/"), inner) for inner in git_files(path)]
        elif os.path.lexists(path):
            found.append(name)
    return found


def walk(folder, root):
    """All files and links below ``folder``, relative to ``root``; caches and git's own folder left out."""
    found = []
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", ".git"))
        links = [name for name in folders if os.path.islink(os.path.join(path, name))]
        found += [os.path.relpath(os.path.join(path, name), root) for name in sorted(names) + links]
    return [name for name in found if not name.endswith(".pyc")]


def matched(patterns, root):
    """Files that ``ship`` names: paths or globs relative to ``root``; a folder means everything in it."""
    found = set()
    for pattern in patterns:
        hits = glob.glob(os.path.join(glob.escape(root), pattern), recursive=True, include_hidden=True)
        if not hits:
            raise Refusal("ship names {}, which matches nothing below {}; correct it".format(shown(pattern), root))
        for hit in hits:
            real = os.path.normpath(hit)
            if os.path.commonpath([real, root]) != root:
                raise Refusal("ship names {}, which lies outside {}; ship only what lies below it".format(shown(pattern), root))
            found.update(walk(real, root) if os.path.isdir(real) and not os.path.islink(real) else [os.path.relpath(real, root)])
    return sorted(name for name in found if _may_travel(name, root))


def _may_travel(name, root):
    """Neither git's own folder (it may hold a token) nor what is reached through a link, which travels as a link."""
    parts = name.split(os.sep)
    above = [os.path.join(root, *parts[:depth]) for depth in range(1, len(parts))]
    return ".git" not in parts and not any(os.path.islink(path) for path in above)


def choose(script, module, ship, stands, packaged, records=None):
    """What is shipped and from where.

    Args:
        script: absolute path of the script, or None.
        module: dotted name, or None.
        ship: patterns, or None.
        stands: folder in which the user stands.
        packaged: the project's ``files``.
        records: folder of the launches' records, which no job needs.

    Returns:
        ``(root, names)``: an absolute folder and the sorted names of the files below it.
    """
    start = os.path.dirname(script) if script else os.path.realpath(stands)
    packaged = os.path.realpath(packaged)
    if script and (start + os.sep).startswith(packaged + os.sep):
        root, names = packaged, walk(packaged, packaged)
    else:
        tree = _trusted_tree(start, ship)
        root = tree or start
        if ship is not None:
            names = []
        elif tree:
            names = [name for name in git_files(root) if not _below(os.path.join(root, name), records)]
        else:
            names = [os.path.basename(script)] if script else module_files(module, root)
    if ship is not None:
        names = matched(ship, root)
    if script and os.path.relpath(script, root) not in names:
        names.append(os.path.relpath(script, root))
    if module and not any(_is_module(name, module) for name in names):
        raise Refusal(
            "found no module {} among what is shipped from {}; stand in the folder that holds it, or name it by chdir or "
            "ship".format(module, root)
        )
    return root, sorted(names)


def _below(path, folder):
    return folder is not None and path.startswith(os.path.realpath(folder) + os.sep)


def check_chdir(chdir, names, root):
    """A relative working folder is one of those that are shipped."""
    if chdir and not os.path.isabs(chdir):
        folder = os.path.normpath(chdir)
        if folder != "." and not any(name.startswith(folder + "/") for name in names):
            raise Refusal(
                "chdir is {}, but nothing below a folder of that name is shipped from {}; correct it, or name it in "
                "ship".format(shown(chdir), root)
            )


def _trusted_tree(start, ship):
    """Top of the git work tree, or None; one that git does not trust does not matter to ``ship``."""
    try:
        return work_tree(start)
    except Refusal:
        if ship is None:
            raise
        return None


def _is_module(name, module):
    stem = "/" + module.replace(".", "/")
    return ("/" + name).endswith((stem + ".py", stem + "/__main__.py", stem + "/__init__.py"))


def module_files(module, root):
    """The top package of a module, or its one file, below ``root``."""
    top = os.path.join(root, module.split(".")[0])
    if os.path.isdir(top):
        return walk(top, root)
    if os.path.isfile(top + ".py"):
        return [os.path.basename(top) + ".py"]
    raise Refusal("found no module {} in {}; stand in the folder that holds it".format(module, root))


def check_size(root, names, ship):
    """Refuse more than 200 MB or 20,000 files unless ``ship`` names them; returns the bytes."""
    total = sum(os.lstat(os.path.join(root, name)).st_size for name in names)
    if ship is None and (total > MAX_BYTES or len(names) > MAX_FILES):
        raise Refusal(
            "{} holds {:,} files with {:.0f} MB, expected at most {:,} and {:.0f} MB; say what the job needs by ship, e.g. "
            "-e '{{\"ship\": [\"train.py\", \"src\"]}}'".format(root, len(names), total / 1e6, MAX_FILES, MAX_BYTES / 1e6)
        )
    return total


def pack(root, names, output):
    """Write a tar of ``names`` whose bytes depend on the files alone: no times, owners or folders.

    Returns:
        sha256 of the tar, hex.
    """
    digest = hashlib.sha256()

    class Tee(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            digest.update(data)
            return output.write(data)

    with tarfile.open(fileobj=Tee(), mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            path = os.path.join(root, name)
            try:
                member = archive.gettarinfo(path, arcname=name)
                stream = open(path, "rb") if member is not None and (member.isreg() or member.islnk()) else None
            except OSError as error:
                raise Refusal("{} cannot be read ({}); mend it, or leave it out by ship".format(path, error.strerror)) from None
            if member is None or not (member.isreg() or member.issym() or member.islnk()):
                raise Refusal("{} is neither a file nor a link, so it cannot be shipped; leave it out by ship".format(path))
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = 0
            member.mode = 0o755 if member.mode & 0o100 else 0o644
            if member.islnk():
                member.type, member.linkname, member.size = tarfile.REGTYPE, "", os.lstat(path).st_size
            if stream:
                with stream:
                    archive.addfile(member, stream)
            else:
                archive.addfile(member)
    return digest.hexdigest()


def origin(root):
    """Where the code comes from: git commit and whether the tree has changes, or nothing."""
    commit = git(root, "rev-parse", "HEAD")
    if not commit:
        return {"commit": None, "changed": None}
    status = git(root, "status", "--porcelain") or b""
    return {"commit": commit.decode().strip(), "changed": bool(status.strip())}
