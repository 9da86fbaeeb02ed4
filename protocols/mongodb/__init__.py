"""MongoDB on stores for distributed persistent memory, which the Clover paper compares with: a machine more, and TCP.

Open ``mongod.py`` first: the server and its clients. ``stores.py`` has the two schemes, over Octopus and over Hotpot.
"""
