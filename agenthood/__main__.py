"""`python -m agenthood` is the same as `agenthood`."""

from __future__ import annotations

import sys

from agenthood.cli import main

if __name__ == "__main__":
    sys.exit(main())
