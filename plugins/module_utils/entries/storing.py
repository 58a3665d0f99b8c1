"""Reading and writing such a file: one writer at a time, whole or not at all, and with no more rights than its owner has."""

import contextlib
import errno
import fcntl
import os
import stat
import time

from . import merge

# A file that is larger is not one of these.
LIMIT = 8 << 20
SECONDS_TO_WAIT = 60


class Fault(Exception):
    """Why a file was left as it is; the text is one sentence."""


class Place:
    """Where a file lies: a folder, and a name in it.

    Args:
        folder: absolute.
        name: of the file.
        account: of the user whose home ``folder`` is in, from the module ``pwd``; None for a file of root's. All that is done
            in a home is done with its owner's rights alone, so that no link in it leads anywhere else.
    """

    def __init__(self, folder, name, account=None):
        self.folder, self.name, self.account = folder, name, account
        self.path = os.path.join(folder, name)

    @contextlib.contextmanager
    def rights(self):
        """Have the rights of the place's owner, as far as this process may choose."""
        if self.account is None or os.geteuid() != 0:
            yield
            return
        groups, gid = os.getgroups(), os.getegid()
        os.initgroups(self.account.pw_name, self.account.pw_gid)
        try:
            os.setegid(self.account.pw_gid)
            os.seteuid(self.account.pw_uid)
            yield
        finally:
            os.seteuid(0)
            os.setegid(gid)
            os.setgroups(groups)


def of_user(account, name):
    """The place of a file in the account's ~/.ssh."""
    return Place(os.path.join(account.pw_dir, ".ssh"), name, account)


def of_root(path):
    """The place of a file of root's, or of what it is a link to."""
    folder, name = os.path.split(os.path.realpath(path))
    return Place(folder, name)


def peek(place):
    """``(text, mode of the folder, mode of the file)``; None for what is not there, is a link or cannot be read."""
    found = [None, None, None]
    with contextlib.suppress(OSError, Fault), place.rights(), contextlib.ExitStack() as stack:
        folder = _open_folder(place)
        stack.callback(os.close, folder)
        found[1] = _mode(folder)
        descriptor = _open_file(place, folder)
        stack.callback(os.close, descriptor)
        found[2] = _mode(descriptor)
        found[0] = _shown(_read(descriptor))
    return tuple(found)


def edit(place, kind, wish, check=False):
    """Bring the members' entries into a file.

    Args:
        place: of the file.
        kind, wish: see :func:`merge`.
        check: only tell what would change.

    Returns:
        ``{"before", "after", "notes", "tightened"}``: texts, sentences about others' lines, and ``(path, mode, mode after)`` of
        what others could write and no longer can; sshd takes no keys from such files.

    Raises:
        Fault: the place is a link or something else that nothing is written to, or the lock is not free in time.
        OSError: reading or writing failed.
    """
    with place.rights():
        try:
            folder = _open_folder(place)
        except FileNotFoundError:
            if check:
                text, notes = merge(kind, "", wish)
                return {"before": "", "after": text, "notes": notes, "tightened": []}
            os.mkdir(place.folder, 0o700 if place.account else 0o755)
            folder = _open_folder(place)
        try:
            _lock(place, folder)
            return _edit(place, folder, kind, wish, check)
        finally:
            os.close(folder)  # and with it the lock


def _edit(place, folder, kind, wish, check):
    try:
        descriptor = _open_file(place, folder)
    except FileNotFoundError:
        descriptor = None
    try:
        before = _read(descriptor) if descriptor is not None else ""
        after, notes = merge(kind, before, wish)
        if after != before and not check:
            _write(place, folder, descriptor, after)
        tightened = _tighten(place, folder, check) if place.account else []
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return {"before": _shown(before), "after": _shown(after), "notes": notes, "tightened": tightened}


def _open_folder(place):
    # Root's own folders may be links; in a home they are not followed.
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if place.account else 0)
    try:
        return os.open(place.folder, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Fault("found {} to be a link or a file, expected a folder; put one there".format(place.folder)) from None
        raise


def _open_file(place, folder):
    try:
        descriptor = os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Fault("found {} to be a link, expected a file; put one there".format(place.path)) from None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise Fault("found {} to be something else than a file, expected one; put one there".format(place.path))


def _lock(place, folder):
    """Take the folder's lock, which goes with the descriptor: nothing is left behind, and other names in it do not matter."""
    deadline = time.monotonic() + SECONDS_TO_WAIT
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Fault(
                    "found {} locked by another process for {} s, expected it to be free; see `lslocks` and end that "
                    "process".format(place.folder, SECONDS_TO_WAIT)
                ) from None
            time.sleep(0.02)  # a waiting flock could not be bounded
        except OSError:
            return  # a network's file system without such locks: the rename still keeps the file whole


def _read(descriptor):
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, LIMIT, 0) if size <= LIMIT else None
    if data is None or len(data) != os.fstat(descriptor).st_size:
        raise OSError(errno.EFBIG, "the file is too large or changes while it is read")
    return data.decode("utf-8", "surrogateescape")


def _write(place, folder, old, text):
    data = text.encode("utf-8", "surrogateescape")
    # The name is always the same: the lock is held, so a file of this name is what a killed writer left.
    aside = ".{}.muster".format(place.name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(aside, dir_fd=folder)
    new = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with os.fdopen(new, "wb") as stream:
            stream.write(data)
            stream.flush()
            _take_after(new, old, 0o600 if place.account else 0o644)
            os.fsync(new)
        os.rename(aside, place.name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(aside, dir_fd=folder)
        if error.errno != errno.EBUSY or place.account:
            raise
        # In a container the hosts file can be a mount of its own, which takes no other file in its place.
        again = os.open(place.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(again, "wb") as stream:
            stream.write(data)
            stream.truncate()
            stream.flush()
            os.fsync(again)


def _take_after(new, old, mode):
    """Give a new file owner, mode, SELinux context and access list of the old one; ``mode`` where there is none."""
    if old is None:
        os.fchmod(new, mode)
        return
    found = os.fstat(old)
    if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(new, found.st_uid, found.st_gid)
    os.fchmod(new, stat.S_IMODE(found.st_mode))
    with contextlib.suppress(OSError):
        for name in os.listxattr(old):
            with contextlib.suppress(OSError):
                os.setxattr(new, name, os.getxattr(old, name))


def _tighten(place, folder, check):
    found = []
    for path, name in ((place.folder, "."), (place.path, place.name)):
        try:
            mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            continue
        if mode & 0o022:
            found.append((path, mode, mode & ~0o022))
            if not check:
                _chmod(folder, name, mode & ~0o022)
    return found


def _chmod(folder, name, mode):
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def _mode(descriptor):
    return stat.S_IMODE(os.fstat(descriptor).st_mode)


def _shown(text):
    """A text as JSON can carry it."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
