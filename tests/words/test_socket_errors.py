"""What does somebody read who names a socket that is not there, forgets the link, or misspells a setting's value?"""

from __future__ import annotations

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.sim.errors import InputError

HEAD = "platform: mine\ntitle: mine\n"
TWO = "sockets:\n  a: {cores: {value: 12, source: s}}\n  b: {cores: {value: 12, source: s}}\n"
LINK = "interconnect:\n  link: {value: 40 GB/s, source: s}\n  crossing: {value: 28 ns, source: s}\n"


def complaint(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_platform(str(path))
    return str(caught.value).replace(f"{path}:", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "extends: fast20-sockets\nmemory: {far_pm: {socket: {value: socket2, source: s}}}\n",
            "4: memory.far_pm.socket: found the unknown socket 'socket2', expected one of socket0, socket1; "
            "did you mean 'socket1'?",
        ),
        (
            "extends: fast20-sockets\nsettings:\n  adapter:\n    sets: nic.socket\n    values: [socket0, socket1]\n"
            "    default: socket7\n    source: s\n",
            "8: settings.adapter.default: found 'socket7', expected one of socket0, socket1; did you mean 'socket1'?",
        ),
        (
            "extends: optane-adr\nsettings:\n  data_in_order:\n    sets: nic.data_in_order\n"
            "    values: [none, 128B]\n    default: none\n    source: s\n",
            "7: settings.data_in_order.values: found '128B', expected one of whole message, 128 B, none, as "
            "nic.data_in_order takes it; did you mean '128 B'?",
        ),
        (
            f"extends: optane-adr\n{TWO}{LINK}nic: {{socket: {{value: c, source: s}}}}\n",
            "10: nic.socket: found the unknown socket 'c', expected one of a, b",
        ),
        (
            f"extends: optane-adr\n{TWO}{LINK}cpu: {{socket: {{value: bb, source: s}}}}\n",
            "10: cpu.socket: found the unknown socket 'bb', expected one of a, b; did you mean 'b'?",
        ),
        (
            "extends: optane-adr\nmemory: {pm: {socket: {value: a, source: s}}}\n",
            "4: memory.pm.socket: found the unknown socket 'a', expected nothing: this platform has no sockets",
        ),
        (
            f"extends: optane-adr\n{TWO}",
            "4: sockets: found a link without the time of a crossing, expected interconnect.crossing, since there are "
            "2 sockets",
        ),
        (
            f"extends: optane-adr\n{TWO}interconnect: {{crossing: {{value: 28 ns, source: s}}}}\n",
            "4: sockets: found a link without a bandwidth, expected interconnect.link, since there are 2 sockets",
        ),
        (
            f"extends: optane-adr\n{TWO}{LINK}cpu: {{cores: {{value: 30, source: s}}}}\n",
            "4: sockets: found 24 cores on 2 sockets, expected the 30 cores of cpu.cores",
        ),
        (
            "extends: fast20-sockets\ninterconnect: {directory: {value: dram, source: s}}\n",
            "4: interconnect.directory.value: found 'dram', expected one of none, memory",
        ),
    ],
)
def test_it_says_where_what_and_what_instead(tmp_path, text, words):
    assert words in complaint(tmp_path, text)
