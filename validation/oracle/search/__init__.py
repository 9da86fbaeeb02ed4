"""Is there a legal order? The general search, and quick answers for containers whose items are unique.

``plain`` is the search as others have it, which tests and the benchmark compare with.
"""
