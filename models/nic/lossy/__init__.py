"""An adapter on a network that loses, delays or reorders packets: sequence numbers, go-back-N, retries.

Only machines on a disturbed fabric get one. On an undisturbed fabric it agrees with the short adapter to the
picosecond.
"""
