"""Floor 4 knows how to put a system together and run it: schema, workloads, results; no verdicts."""
