"""The documentation site's source: the pages of docs/, and those that are made from the code.

``python -m rpsim.app.site.write FOLDER`` lays it out, and Sphinx builds it (``make docs``); nothing here needs Sphinx.
It is for a checkout: the wheel has no pages.
"""
