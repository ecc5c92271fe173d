"""The tools of a member: files, search, history, and with the user's leave writing and commands."""

from agenthood.runtime.tools.base import ToolResult
from agenthood.runtime.tools.toolbox import Toolbox

__all__ = ["ToolResult", "Toolbox"]
