"""What a host is and has, looked at once by the module ``survey`` for all roles; reads only, standard library, Python 3.8.

Each section is a module of this package with ``look(options)``, which returns what JSON can carry. A section never raises: what
cannot be read is told as ``None``. What is made of it is decided on the controller, see ``plugins/plugin_utils``.
"""
