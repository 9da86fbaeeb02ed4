"""Floor 3 knows the schemes of the papers: roles, layouts, code, recovery, claims; no times."""
