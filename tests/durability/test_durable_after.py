"""Which sequences are durable on which platform, once the requester has waited for the last of them."""

from __future__ import annotations

import pytest

from rpsim.models.verbs import Opcode

from ..rig import ELSEWHERE, LINE, Rig, line
from ..verbs import GLOBAL, PERSISTENT, flushable, post, post_add, post_atomic_write, post_flush, word

# durable or not, after the last thing that the requester waits for --------------------------------------------------

WRITE = "WRITE"
READ = "WRITE; READ"
SEND = "WRITE; SEND; reply"
FLUSH = "WRITE; SEND; CPU flush; reply"
OTHER = "WRITE q1; READ q2"
COLUMNS = [("optane-adr", "off"), ("optane-adr", "on"), ("optane-eadr", "on"), ("optane-eadr", "off")]
RFLUSH_GLOBAL, RFLUSH, OTHER_RFLUSH = "WRITE; FLUSH (global)", "WRITE; FLUSH (persistent)", "WRITE q1; FLUSH q2"
IMM = "WRITE WITH IMMEDIATE; reply"
DURABLE = {
    WRITE: "NNNN",
    READ: "YNYY",
    SEND: "NNYN",
    IMM: "NNYN",
    FLUSH: "YYYY",
    OTHER: "NNNN",
    RFLUSH_GLOBAL: "NNYN",
    RFLUSH: "YYYY",
    OTHER_RFLUSH: "NNNN",
}
CASES = [
    pytest.param(sequence, *column, verdict == "Y", id=f"{sequence} on {column[0]}, ddio {column[1]}: {verdict}")
    for sequence, verdicts in DURABLE.items()
    for column, verdict in zip(COLUMNS, verdicts, strict=True)
]


def run_sequence(rig, sequence, size):
    """Returns the instant after the last wait."""
    first, second = rig.clients
    data = line(1, size // LINE)
    if sequence == WRITE:
        return first.write(data).ps
    if sequence == OTHER:
        first.write(data)
        return second.read(line=ELSEWHERE).ps
    if sequence == READ:
        first.post_write(data=data)
        return first.read(line=ELSEWHERE).ps
    if sequence in (RFLUSH_GLOBAL, RFLUSH, OTHER_RFLUSH):
        region = flushable(rig)
        first.post_write(data=data)
        if sequence == OTHER_RFLUSH:
            rig.run()
        kind = GLOBAL if sequence == RFLUSH_GLOBAL else PERSISTENT
        who = second if sequence == OTHER_RFLUSH else first
        return who.wait(post_flush(who, region, kind, length=size, at=rig.clock.now_ps)).ps
    rig.server.post_recv(first)
    if sequence == IMM:
        post(first, Opcode.IBV_WR_RDMA_WRITE_WITH_IMM, data)
        rig.server.receive()
        return rig.server.reply(first)
    first.post_write(data=data)
    first.post_send()
    rig.server.receive()
    if sequence == FLUSH:
        rig.server.flush(lines=size // LINE)
    return rig.server.reply(first)


@pytest.mark.parametrize(("sequence", "platform", "ddio", "durable"), CASES)
@pytest.mark.parametrize("size", [64, 4096])
def test_durable_after_the_last_wait(sequence, platform, ddio, durable, size):
    rig = Rig(platform, ddio=ddio, connections=2, whole_lines=True)
    crash_ps = run_sequence(rig, sequence, size)
    new = line(1, size // LINE)
    for number in range(size // LINE):
        contents = rig.adversarial.contents(line=number, crash_ps=crash_ps)
        assert new[number * LINE :][:LINE] in contents
        assert (len(contents) == 1) is durable


@pytest.mark.parametrize(("platform", "ddio"), COLUMNS)
@pytest.mark.parametrize("posts", [post_add, post_atomic_write])
def test_what_an_atomic_leaves_is_not_durable_by_its_completion(platform, ddio, posts):
    rig = Rig(platform, ddio=ddio)
    done = rig.client.wait(posts(rig.client, 1 if posts is post_add else word(1)))
    assert rig.adversarial.contents(0, done.ps) == {bytes(LINE), word(1) + bytes(56)}


@pytest.mark.parametrize("ddio", ["on", "off"])
@pytest.mark.parametrize(
    ("domain", "sequence", "durable"),
    [("wsp", WRITE, True), ("media", FLUSH, False), ("none", FLUSH, False)],
)
def test_other_domains(ddio, domain, sequence, durable):
    rig = Rig(ddio=ddio, domain=domain, connections=2, whole_lines=True)
    crash_ps = run_sequence(rig, sequence, 64)
    assert rig.adversarial.durable(0, line(1), crash_ps) is durable
    assert bytes(64) in rig.adversarial.contents(0, crash_ps) or durable
