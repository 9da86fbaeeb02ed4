"""One 64 B WRITE on optane-adr: its hops, where its bytes got to, and where they may be when it completes."""

from rpsim.models.durability.views import Views
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import Opcode, SendWR, Span

system = System(
    load_platform("optane-adr", ddio="on"),
    {"server": [NodeSpec(cores=1, memory=("dram", "pm"))], "client": [NodeSpec()]},
    seed=1,
)
server, client = system.nodes["server"][0], system.nodes["client"][0]
pm = server.memory["pm"]

target = pm.allocate(64, "object")
region = server.alloc_pd().reg_mr(target, 64)
source = client.memory["dram"].allocate(64, "source")
qp = client.alloc_pd().create_qp(client.create_cq(), client.create_cq())
qp.connect(server.alloc_pd().create_qp(server.create_cq(), server.create_cq()))
thread = client.thread(0, "client[0]")
thread.span = Span("one WRITE")


def code():
    yield from thread.store(source, b"new bytes".ljust(64, b"."))
    yield from thread.post_send(qp, SendWR(1, Opcode.IBV_WR_RDMA_WRITE, source, 64, target, region.key))
    completion = yield from thread.poll(qp.send_cq)
    print(f"{'completion polled: ' + completion.status:36}{thread.now_ps / 1000:>10.3f} ns")


system.clock.run_until(system.clock.start(code()))
for hop, end_ps in thread.span.marks:
    print(f"  until the end of {hop:25}{end_ps / 1000:>10.3f}")

(chunk,) = system.trace.chunks
print(f"accepted by the responder's NIC     {chunk.reached_ps[0] / 1000:>10.3f}")
print(f"visible to coherent reads           {chunk.reached_ps[2] / 1000:>10.3f}")
views = Views(system.trace, {pm.number: pm.domain}, initial=lambda line: bytes(64))
places = sorted(views.places(chunk, system.clock.now_ps))
print(f"may be at the completion in:        {', '.join(places)}")
survivors = list(views.contents((pm.number, chunk.address // 64), system.clock.now_ps, {}))
print(f"what a power failure may leave:     {len(survivors)} images of the line")
