"""The memory tiers: long-term, episodic, residual and short-term."""
