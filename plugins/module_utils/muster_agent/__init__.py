"""Muster's agent: everything that runs on a node, with nothing but the standard library and Python 3.8.

One copy of this package is shipped with every job. ``jobs`` holds what a node is asked for (start, stop, tail ...),
``supervisor`` and ``head`` what goes on while a job runs, the other modules what these two need.
"""
