"""Output for a terminal: tables, timelines, progress; and results folders that appear only when complete.

Nothing here is wider than the window.
"""
