"""The host's firewall: what is wanted, what is there, what has to be done; standard library only, Python 3.8.

``rules`` says what is wanted, ``ufw`` and ``firewalld`` read a text and plan in it, all three without touching anything;
``host`` asks and changes the host, ``guard`` and ``rollback`` put everything back when nobody confirms a change in time.
"""
