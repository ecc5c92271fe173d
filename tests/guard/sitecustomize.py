"""Guards every process that a test starts: Python imports a module of this name from `PYTHONPATH`."""

import network_guard

network_guard.install()
