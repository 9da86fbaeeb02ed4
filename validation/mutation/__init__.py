"""The mutation score: the share of faults, planted in a scheme's own code one at a time, that the judge finds.

``operators`` plants a fault, ``trials`` says under which loads and faults it is looked for, ``fates`` what became of
it. A fault that survives has a reason in ``reasons.yaml``, or is a finding about the judge.
"""
