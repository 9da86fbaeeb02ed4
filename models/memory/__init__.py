"""DIMMs and what stands in front of them: memory controller, write pending queue, Optane's buffer, DRAM, bandwidth.

A device is given lines and says when it has them. It knows neither caches nor who writes.
"""
