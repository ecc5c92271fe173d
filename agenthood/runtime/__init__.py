"""`agenthood run`: an agent that is given the lessons and learns from how its run went."""
