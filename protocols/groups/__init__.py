"""Groups of machines that keep each object several times: three shapes of replication over any flush primitive."""
