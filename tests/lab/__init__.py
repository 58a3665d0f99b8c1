"""The lab: real systemd hosts on this machine, booted by systemd-nspawn. ``python -m tests.lab --help`` says more."""
