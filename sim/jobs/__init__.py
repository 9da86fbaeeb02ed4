"""Jobs: functions of plain data, run side by side, each once.

``runner`` runs them in processes or in another executor, ``cluster`` finds one elsewhere; ``kept`` keeps their answers
in a file, ``spread`` in a file of each worker; ``code`` hashes what an answer depends on. Everything in rpsim that
starts a process for work starts it here.
"""
