"""A model for ``rpsim check --model docs/examples/bank.py:Account``."""


class Account:
    """A balance; what is not there cannot be withdrawn."""

    initial = 0
    reads = ("balance",)  # never change the state: the search need not branch on them

    def deposit(self, state, value):
        return state + value, None  # None: whatever the history says it returned

    def withdraw(self, state, value):
        return (state - value, True) if value <= state else (state, False)

    def balance(self, state, value):
        return state, state
