"""Floor 1 knows time and bytes: clock, stations, byte spaces, random streams, statistics; no hardware."""
