"""Floor 5 knows how to judge a run: crash states, recovery, the oracle; no terminals and no HTML."""
