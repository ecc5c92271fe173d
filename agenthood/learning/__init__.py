"""Learning: the pattern index, the episode learner, recall, migration, forgetting, transfer."""
