"""One primitive on four platforms: how long one update of 256 B takes, and whether a power failure may lose it."""

from pathlib import Path

from rpsim.models.durability.views import Views
from rpsim.models.persist.service import Service
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import Span
from rpsim.protocols.primitives import primitive

DATA = bytes(range(1, 256)) + b"\1"
PUSH = Path(__file__).with_name("push.yaml")


def persisted(what, platform):
    """The system in which one update has just been persisted, the thread that did it, and whether it is certain."""
    system = System(platform, {"server": [NodeSpec(memory=("pm", "dram"))], "client": [NodeSpec()]}, seed=1)
    server, client = system.nodes["server"][0], system.nodes["client"][0]
    service = Service(what, server)
    pool = server.memory["pm"].allocate(4096, "pool", align=4096)
    service.register(pool, 4096)
    thread = client.thread(0, "client[0]")
    thread.span = Span("one update")
    requester = service.connect(thread, client)
    if service.needs_thread:
        system.clock.start(service.serve(server.thread(0, "server[0]")))
    places = system.clock.run_until(system.clock.start(requester.persist([(pool, DATA)])))

    device, start = server.memory.locate(places[0][0])
    views = Views(system.trace, {d.number: d.domain for d in server.devices}, lambda line: bytes(64), whole_lines=True)
    left = [views.contents((device.number, start // 64 + n), system.clock.now_ps, {}) for n in range(len(DATA) // 64)]
    certain = [[content.data for content in line] == [DATA[64 * n : 64 * n + 64]] for n, line in enumerate(left)]
    return system, thread, all(certain)


for name, switches in (("read-after-write", {}), (PUSH, {}), (PUSH, {"patience": "hurries"})):
    what = primitive(name, switches)
    print(" ".join([what.name, *what.chosen.values()]))
    for label in ("optane-adr", "optane-eadr"):
        for ddio in ("on", "off"):
            system, thread, certain = persisted(what, load_platform(label, ddio=ddio))
            verdict = "durable" if certain else "may be lost"
            print(f"  {label}, ddio {ddio}".ljust(26) + f"{system.clock.now_ps / 1000:>9.1f} ns  {verdict}")

_, thread, _ = persisted(primitive(PUSH), load_platform("optane-adr", ddio="on"))
print("the steps of push on optane-adr, ddio on")
for hop, end_ps in thread.span.marks:
    if ": " in hop:
        print(f"  until the end of {hop:25}{end_ps / 1000:>9.1f}")
