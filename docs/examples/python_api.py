"""rpsim from Python: two stores with small values, one power cut, and a history of one's own."""

from textwrap import fill

import rpsim

small = rpsim.Draft.opened("quickstart").set({"workload.keys": 8, "workload.operations": 60, "workload.value": "64 B"})
small = small.with_(schemes=["saw", "client-active"], platform="optane-adr", ddio="on")

for row in rpsim.run(small, seed=7).records():
    print(f"{row['scheme']:>13} {row['operation']}: {row['p50_ns']:,.0f} ns")

answer = rpsim.crash(small, seed=7)
print()
print(answer.verdicts["saw"]["no_lost_ack"], answer.verdicts["client-active"]["no_lost_ack"])
case = next(case for case in answer.cases if case.condition == "no_lost_ack")
print(f"{case.scheme}, after {case.operations} operation, power failure at {case.instant_ps / 1e6:.3f} us:")
print(case.explanation)
print()
print(case.timeline())

events = [
    {"process": 0, "type": "invoke", "f": "write", "key": "x", "value": 1, "time": 10},
    {"process": 0, "type": "ok", "f": "write", "key": "x", "value": 1, "time": 20},
    {"type": "crash", "node": "system", "time": 30},
    {"process": 1, "type": "invoke", "f": "read", "key": "x", "time": 40},
    {"process": 1, "type": "ok", "f": "read", "key": "x", "value": None, "time": 50},
]
judged = rpsim.check(events, conditions=["durable", "committed"])
print()
print(dict(judged.verdicts))
print(fill(judged.explanations["durable"], 80))

try:
    rpsim.run("quickstart", schemes=["sav"])
except rpsim.InputError as error:
    print()
    print(str(error).partition(", expected")[0])
