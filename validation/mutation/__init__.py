"""Faults planted in a scheme's own code, one at a time, and how many of them the judge finds: the mutation score."""
