"""The host behind PCIe: root complex, caches with DDIO, translation, and the agent that sends lines to memory.

Bytes written by adapters and cores meet here. Tags of caches know no time, so that the naive model shares them.
"""
