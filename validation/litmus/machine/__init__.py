"""The abstract machine: every state that a litmus program can reach under the rule table, once each.

It knows no times. ``reduction`` leaves out steps that may as well be tried later.
"""
