"""Pages in HTML and Markdown: reports of runs, matrices, histories, curves; one page each for platforms and schemes.

An HTML page is one file that needs nothing else. The templates are in ``app/templates``.
"""
