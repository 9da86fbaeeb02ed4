"""Groups of machines that keep each object several times: three shapes of replication over any flush primitive.

Open ``shapes.py`` first: it says how an update travels and when it returns, and whose log decides after a failure. The
machines and the links between them are in ``replicas.py``, the log that each replica has in ``log.py``.
"""
