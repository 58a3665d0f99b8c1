# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""One Python environment, made and kept by uv: what the module `python_env` decides and does.

`environment` is the way through; the other modules are what it needs. Standard library only; Python 3.8 and later.

How a prefix stays usable: a new environment is built in a folder beside it (`<prefix>.new-<pid>`), looked over, and
put in its place by one atomic exchange of names. A run that fails or is killed leaves the old environment as it was;
the next run removes what the killed one left. `uv venv --relocatable` makes the scripts in bin/ find their Python
beside themselves, so they survive the change of name. Only whoever holds a flock on `<prefix>.lock` writes; the file
is gone when nobody does.
"""
