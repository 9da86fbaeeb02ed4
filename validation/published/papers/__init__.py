"""The papers' claims: what each says, the runs that it takes, and the scoreboard.

A paper is one file in ``validation/published/claims/``: a scenario to start from, axes that vary it, figures, and
claims as expressions over what runs measure. A further paper adds its file, and its schemes in ``protocols/``.
"""
