"""What ``playbooks/verify.yml`` does on a host: listen, connect, log in, look; standard library only, Python 3.8.

It is sent along with each request and runs from memory (see ``plugins/plugin_utils/remote.py``); nothing is left on the host.
What is made of the answers is decided on the controller, see ``plugins/plugin_utils/verifying.py``.
"""
