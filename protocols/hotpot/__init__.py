"""Hotpot: distributed shared persistent memory whose transactions commit in three phases, and its published code."""
