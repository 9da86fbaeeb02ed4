"""Passive disaggregated persistent memory: the three stores of the Clover paper, and what they are compared with.

Source: Tsai, Shan, Zhang, USENIX ATC'20. Data nodes (``data.py``) have memory and an adapter and run no code. Open
``direct.py`` first: its clients do everything; then ``clover/``, whose clients read and write data nodes while a
metadata server gives out space.
"""
