"""The formats that histories come in: each module gives the events of a text, line by line.

``jsonlines`` is the project's own, ``edn`` that of Jepsen's stores, ``textlog`` that of its console logs.
"""
