"""What may be chosen of the calls: each option does what it says, and the preset of the public code takes them all."""

from __future__ import annotations

import pytest

from rpsim.app.main import main
from rpsim.models.cpu.accounting import total
from rpsim.protocols.registry import scheme, schemes
from rpsim.protocols.rflush.calls import CallScheme
from rpsim.protocols.rflush.options import PUBLIC_CODE
from rpsim.scenarios.run.experiment import run_variant
from rpsim.sim.errors import InputError

from ...small import get, only_variant, put, scenario

PLACE = {"vary": {"platform": ["rflush-testbed"], "ddio": ["off"], "domain": ["adr"]}}
CALLS = [name for name, kind in schemes().items() if issubclass(kind, CallScheme)]


PUTS = (put(0, "k0"), put(0, "k0"))


def performed(name, value="64 KiB", operations=PUTS, **more):
    """A metered run."""
    given = {"kind": "schedule", "operations": list(operations), **more}
    made = scenario(name, given, **PLACE, value=value)
    return run_variant(made, only_variant(made), metered=True)


def carried(result, source, verb):
    """The bytes of the packets that a machine sent for a verb, and how many requests it posted."""
    rows = [row for row in result.summary()["traffic"] if row["from"].startswith(source)]
    return sum(row["payload_bytes"] for row in rows), sum(row["verbs"].get(verb, 0) for row in rows)


def took_ps(result):
    """How long the last operation took."""
    last = result.history.operations[-1]
    return last.return_ps - last.invoke_ps


def account(result, role):
    """The time of all threads of a role's machines."""
    return total(thread.account for node in result.system.nodes[role] for thread in node.threads)


def test_the_public_code_is_one_preset_for_every_call():
    assert CALLS and all(PUBLIC_CODE in scheme(name).options["as"].choices for name in CALLS)
    chosen = {name: scheme(f"{name}[as=public code]") for name in ("farm", "darpc", "l5", "rfp", "fasst")}
    assert {kind.option("flush") for kind in chosen.values()} == {"one line"}
    assert chosen["farm"].option("completion") == chosen["l5"].option("completion") == "awaited"
    assert chosen["l5"].option("reply") == chosen["rfp"].option("reply") == "object"
    assert chosen["darpc"].option("copies") == 2
    assert chosen["l5"].option("work") == chosen["fasst"].option("work") == "skipped"


def test_what_is_chosen_beside_a_preset_goes_before():
    kind = scheme("l5[as=public code, flush=all lines]")
    assert (kind.option("flush"), kind.option("reply")) == ("all lines", "object")
    assert scheme("l5").option("reply") == scheme("l5[as=described]").option("reply") == "data"


def test_a_reply_of_an_objects_size_comes_back_for_a_write_too():
    short, long = (carried(performed(name), "server", "WRITE")[0] for name in ("l5", "l5[reply=object]"))
    assert long - short >= 2 * 65_536


def test_each_read_that_asks_for_a_reply_moves_the_object():
    """Also those in vain: the server copies and flushes 64 KiB meanwhile."""
    short, long = performed("rfp"), performed("rfp[reply=object]")
    _, reads = carried(long, "client", "READ")
    assert reads > 2 and carried(long, "server", "READ")[0] > reads * 65_536
    assert carried(short, "server", "READ")[0] < 65_536


def test_the_first_write_is_awaited_before_the_flag_is_sent():
    usual, awaited = (took_ps(performed(name, "8 B")) for name in ("l5", "l5[completion=awaited]"))
    assert 1_000_000 < awaited - usual < 3_000_000


def test_a_client_that_copies_twice_has_that_much_more_to_do():
    none, two = (account(performed(name), "client").copy_ps for name in ("darpc", "darpc[copies=2]"))
    assert two > 1.3 * none


def test_work_that_is_skipped_is_that_of_the_workload_alone():
    usual, skipped = (
        account(performed(name, "8 B", work="100 us"), "server").software_ps for name in ("l5", "l5[work=skipped]")
    )
    assert usual - skipped == 2 * 100_000_000 and skipped > 0


def test_a_reply_by_datagram_goes_as_far_as_a_datagram_does():
    result = performed("herd-rpc[reply=datagram]", "4064 B", [put(0, "k0"), get(0, "k0")])
    assert result.history.operations[1].result == 1
    with pytest.raises(InputError, match="a datagram of 4096 B"):
        performed("herd-rpc[reply=datagram]", "4072 B")


FILE = """scenario: mine
platform: rflush-testbed
schemes: ["{name}"]
workload: {{kind: ycsb, mix: a, keys: 2, value: {value}, operations: 4}}
"""


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("fasst", "4 KiB", ["value: found '4 KiB'", "a datagram of 4096 B"]),
        ("l5[reply=objct]", "64 B", ["'reply=objct'", "data or object", "did you mean 'object'?"]),
        ("l5[replay=object]", "64 B", ["'replay'", "did you mean 'reply'?"]),
        ("farm[as=public cod]", "64 B", ["described or public code", "did you mean 'public code'?"]),
        ("farm[resend=100]", "64 B", ["'resend=100'", "a time with its unit, e.g. '100 us'"]),
        ("farm[resend=0 ns]", "64 B", ["'resend=0 ns'"]),
        ("octopus-rpc over wflsh", "64 B", ["'wflsh' at character 18", "did you mean 'wflush'?"]),
        ("octopus-rpc[flush=one line] over wflush", "64 B", ["'flush' in", "no such option"]),
        ("octopus-rpc over rflush-send", "64 B", ["'rflush-send' in", "where it belongs"]),
        ("farm over wflush", "64 B", ["no 'over': farm goes over none"]),
    ],
)
def test_wrong_input_ends_with_2_and_names_what_is_meant(name, value, found, tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text(FILE.format(name=name, value=value), encoding="utf-8")
    assert main(["run", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and all(words in said for words in found), said
