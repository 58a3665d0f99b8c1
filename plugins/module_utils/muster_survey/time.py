"""The clock, the daemons that may set it, and what configures them."""

import glob
import time

from . import reading, units

DAEMONS = ("chrony", "chronyd", "systemd-timesyncd", "ntp", "ntpd", "ntpsec", "openntpd")

# chrony's own, of all families of systems. The last two are Muster's, for hosts that may not set their clock.
CHRONY = (
    "/etc/chrony/chrony.conf",
    "/etc/chrony.conf",
    "/etc/default/chrony",
    "/etc/sysconfig/chronyd",
    "/etc/systemd/system/chrony.service.d/60-muster.conf",
    "/etc/systemd/system/chronyd.service.d/60-muster.conf",
)

# Where the other daemons have their sources.
OTHERS = (
    "/etc/systemd/timesyncd.conf",
    "/etc/systemd/timesyncd.conf.d/*.conf",
    "/etc/ntp.conf",
    "/etc/ntpsec/ntp.conf",
    "/etc/openntpd/ntpd.conf",
)


def look(options):
    """The section.

    Args:
        options: those of the module ``survey``; none is used.

    Returns:
        ``{"now": seconds since the epoch, "daemons": {name: see units.states}, "chrony": {"files": {path: text or None}},
        "others": {path: text} of the configuration of other daemons}``.
    """
    now = time.time()
    paths = [path for pattern in OTHERS for path in sorted(glob.glob(pattern))]
    return {
        "now": now,
        "daemons": units.states(DAEMONS),
        "chrony": {"files": {path: reading.text(path) for path in CHRONY}},
        "others": {path: reading.text(path) for path in paths},
    }
