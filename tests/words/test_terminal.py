"""What people read on the terminal, word by word."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import pytest

from rpsim.app.commands.run import title
from rpsim.app.pages import report
from rpsim.app.terminal.expected import covers, expected, surprises, unanswered
from rpsim.app.terminal.progress import bar, performed
from rpsim.app.terminal.summary import closing, costs, counterexample, findings, performance, verdicts
from rpsim.app.terminal.text import table, thousands
from rpsim.app.terminal.timeline import heading, timeline
from rpsim.protocols.guarantees import ALWAYS, Condition, Verdict
from rpsim.validation.crash.findings import TimelineRow

from . import fakes

ADR, EADR = "optane-adr, ddio on", "optane-eadr, ddio on"


def text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def story(expected_text: str) -> str:
    """The text as it stands in a test, without the test's indentation."""
    return re.sub("^ {8}", "", expected_text, flags=re.MULTILINE).removeprefix("\n")


def test_the_timeline_of_a_lost_put():
    found = timeline(fakes.lost_put())
    assert text(found) == story("""
          client 3                     server
          put k17 = v2  invoke  0.000
            WRITE posted        1.212
                                       staged in the NIC                           1.655
            completion, put ok  2.010
          -- power failure       2.011 us ----------------------------------------------
                                       line 0x4c0 may still be in the NIC: no
                                       READ, receive, FLUSH or atomic of this QP
                                       had forced it on                             LOST
          recovery: k17 -> v1
          get k17 -> v1                but put k17 = v2 had returned at 2.010 us
        """)


def test_the_timeline_of_two_clients_and_two_servers_says_who():
    found = text(timeline(fakes.crowded()))
    assert "clients 3, 12" in found
    assert "client 3: put k17 = v5" in found
    assert found.splitlines()[0].split()[-2:] == ["server[0]", "server[1]"] and "index[17] stored\n" in found
    assert found.count("LOST") == 2, "lines without a row of their own are told from the fates"
    assert "index[17] may still be in the" in found and "no sfence" in found
    assert "client 99" not in found.splitlines()[0], "a fresh client after the failure heads no column"


def test_of_three_machines_each_row_says_whose_it_is():
    late = TimelineRow(1_234_700_000, "server[2]", "power is back")
    found = text(timeline(replace(fakes.crowded(), timeline=(*fakes.crowded().timeline, late))))
    assert "server[0], server[1], server[2]" in found.splitlines()[0]
    assert "server[1]: index[17] stored" in found and "server[2]: power is back" in found
    assert " ".join(found.split()).count("server[1]: index[17] may still be in the") == 1


def test_a_page_has_room_for_more_letters_beside_two_machines():
    late = TimelineRow(1_234_700_000, "server[1]", "power is back")
    example = replace(fakes.crowded(), timeline=(*fakes.crowded().timeline, late))
    narrow, broad = timeline(example), timeline(example, 112)
    assert max(map(len, narrow)) <= 80 < max(map(len, broad)) <= 112 and len(broad) < len(narrow)


@pytest.mark.parametrize("example", [fakes.lost_put(), fakes.crowded()], ids=["lost put", "crowded"])
def test_no_line_is_longer_than_a_terminal(example):
    assert max(map(len, timeline(example))) <= 80


def test_everything_that_quickstart_prints_fits_a_terminal():
    outcomes = fakes.outcomes()
    cases = {(i, n): f"results/quickstart-7f3a12bc/case-{i}{n}.json" for i in range(8) for n in range(2)}
    lines = performance(outcomes) + costs(outcomes) + verdicts(outcomes, []) + findings(outcomes, cases)
    assert [line for line in lines if len(line) > 80] == []


def test_a_table_that_is_too_wide_becomes_several_with_its_labels():
    head = ["platform", "role", *(f"number {n}" for n in range(8))]
    found = table(head, [["optane-adr", "server", *("123.456" for _ in range(8))]], left=2, labels=2)
    pieces = text(found).split("\n\n")
    assert len(pieces) == 2 and max(map(len, found)) <= 80
    assert all(piece.lstrip().startswith("platform    role") for piece in pieces)
    assert "number 4" not in pieces[0] and "number 4" in pieces[1] and pieces[0].count("123.456") == 4


def test_the_heading_of_a_finding():
    report = fakes.report("saw", "optane-adr", ("holds", "violated", "holds"), [])
    assert heading(report, fakes.lost_put(Condition.NO_LOST_ACK)) == [
        "saw on optane-adr: no_lost_ack VIOLATED",
        "  (412 of 9,731 crash states; smallest below)",
    ]
    as_found = replace(fakes.lost_put(Condition.NO_LOST_ACK), shrunk=False)
    assert heading(report, as_found)[1].endswith("crash states; below as it was found, not made smaller)")


def test_findings_tell_a_story_once_and_name_the_other_platforms():
    outcomes = fakes.outcomes()
    cases = {(i, n): f"results/q/case-{i}{n}.json" for i in range(8) for n in range(2)}
    found = text(findings(outcomes, cases))
    assert found.count("-- power failure") == 2, "client-active's two conditions share one case, saw has another"
    assert "by the power failure above" in found
    assert "  replay: rpsim replay results/q/case-00.json\n" in found
    assert "  likewise on optane-eadr, ddio off (412 of 9,731): case-30.json\n" in found


def test_the_table_of_verdicts_marks_what_is_not_as_expected():
    outcomes = fakes.outcomes()[4:6]
    odd = surprises(outcomes[0].crash, {"saw": {"durable": "holds"}}, {})
    assert text(verdicts(outcomes, odd)) == story("""
        verdicts after server[0] power, adversarial view

          saw                   committed  no_lost_ack  durable        states
          optane-adr, ddio on   holds      holds        violated !  9,731 all
          optane-adr, ddio off  holds      holds        holds       9,731 all

          all: every cut of the places at every instant, object by object
        """)
    assert text(closing(odd, 6)) == story("""
        NOT as expected: 1 of 6 verdicts
          ! saw on optane-adr, ddio on: durable violated, but the scenario expects holds
        """)
    assert closing([], 6) == ["as expected: all 6 verdicts"]


def test_that_a_survivor_waits_for_ever_is_said_beside_the_verdicts():
    outcomes = fakes.outcomes()[4:6]
    for outcome, waiting in zip(outcomes, (0, 1_234), strict=True):
        outcome.crash = replace(outcome.crash, executed=True, view="executed", waiting=waiting)
    assert text(verdicts(outcomes, [])) == story("""
        verdicts after server[0] power, executed

          saw                   committed  no_lost_ack  durable      states
          optane-adr, ddio on   holds      holds        violated  9,731 all
          optane-adr, ddio off  holds      holds        holds     9,731 all
          ! optane-adr, ddio off: somebody waits for ever in 1,234 of 9,731 runs; the
            conditions judge what has returned

          all: every cut of the places at every instant, object by object
        """)
    page = report.verdicts(outcomes, [])
    assert [row["waiting"] for row in page["rows"]] == ["", "somebody waits for ever in 1,234 of 9,731 runs"]


def test_the_last_line_counts_only_what_was_expected_or_claimed_and_is_decided():
    report = fakes.outcomes()[4].crash  # committed and no_lost_ack hold, durable is violated
    assert unanswered(report, {}, {}) == (3, 0)
    assert unanswered(report, {"saw": {"durable": "violated"}}, {"committed": "always", "no_lost_ack": "ddio off"}) == (
        1,
        0,
    )
    unknown = replace(report, verdicts=dict.fromkeys(report.verdicts, Verdict.UNDECIDED))
    assert unanswered(unknown, {"saw": {"durable": "undecided"}}, {"committed": "always"}) == (1, 1)
    assert closing([], 3, [(3, 0)]) == ["neither expected nor claimed: 3 verdicts"]
    assert closing([], 5, [(1, 0), (1, 0)]) == [
        "as expected: all 3 verdicts that are expected or claimed",
        "neither expected nor claimed: 2 verdicts",
    ]
    assert closing([], 6, [(1, 0), (1, 1)]) == [
        "as expected: 3 of 4 verdicts that are expected or claimed",
        "claimed and undecided: 1 verdict",
        "neither expected nor claimed: 2 verdicts",
    ]


def test_the_table_of_performance_names_its_units():
    assert text(performance(fakes.outcomes(crash=False)[:1])) == story("""
        latency and throughput

          client-active        op   count  p50 us  p99 us  p99.9 us  mean us   kops/s
          optane-adr, ddio on  get    950   1.530   1.660     1.664    1.532  4,512.3
                               put    900   2.090   3.400     3.780    2.116
        """)


@pytest.mark.parametrize(
    ("per_s", "shown"),
    [(4_512_345, "4,512.3"), (1000, "1.0"), (999.9, "1.000"), (123.4, "0.123"), (2.04, "0.00204"), (0, "0.0")],
)
def test_a_rate_below_a_thousand_a_second_has_three_digits(per_s, shown):
    assert thousands(per_s) == shown


def test_a_scheme_whose_name_would_make_the_table_too_wide_stands_above_it():
    long = "bst on rnvm-rcb[batch=2, oplog=awaited, mirror=back-end, mirrored=before]"
    found = [replace(one, scheme=long, crash=replace(one.crash, scheme=long)) for one in fakes.outcomes()[:1]]
    lines = verdicts(found, []) + performance(found) + costs(found)
    assert max(map(len, lines)) <= 80
    assert [lines[i + 1].split()[0] for i, line in enumerate(lines) if line == f"  {long}"] == ["platform"] * 3


def test_columns_are_as_wide_as_their_widest_cell():
    assert table(["a", "n"], [["long name", "1"], ["b", "1,000"]]) == [
        "  a              n",
        "  long name      1",
        "  b          1,000",
    ]


def test_a_counterexample_in_json_names_the_line_and_why_it_was_lost():
    found = counterexample(fakes.lost_put())
    assert {"condition", "instant_ps", "operations", "lines_lost"} <= found.keys()
    assert found["condition"] == "no_lost_ack" and found["operations"] == 1
    assert found["lines_lost"][0]["place"] == "nic" and "FLUSH" in found["lines_lost"][0]["reason"]


@pytest.mark.parametrize(
    ("selector", "yes"),
    [
        ("optane-adr", True),
        ("ddio on", True),
        ("optane-adr, ddio on", True),
        ("ddio on, optane-adr", True),
        ("optane", False),
        ("optane-eadr", False),
        ("optane-adr, ddio off", False),
    ],
)
def test_which_platforms_a_selector_speaks_of(selector, yes):
    assert covers(selector, ADR) is yes


def test_the_most_exact_expectation_counts():
    by_platform = {"ddio on": "holds", "optane-adr, ddio on": "violated"}
    assert expected({"saw": {"durable": by_platform}}, "saw", ADR) == {"durable": "violated"}
    assert expected({"saw": {"durable": by_platform}}, "saw", EADR) == {"durable": "holds"}
    assert expected({"saw": {"durable": by_platform}}, "saw", "optane-eadr, ddio off") == {}
    assert expected({"saw": {"durable": by_platform}}, "client-active", ADR) == {}


LOSES = fakes.report("saw", ADR, ("holds", "violated", "undecided"), [])


def test_a_claim_counts_where_the_scenario_is_silent():
    (odd,) = surprises(LOSES, {}, {Condition.NO_LOST_ACK: ALWAYS, Condition.DURABLE: ALWAYS})
    assert str(odd) == f"saw on {ADR}: no_lost_ack violated, but the scheme claims holds"
    assert surprises(LOSES, {}, {Condition.NO_LOST_ACK: "optane-eadr; optane-adr, ddio off"}) == []
    assert surprises(LOSES, {}, {}) == [], "what nobody claims cannot be refuted"


def test_the_scenario_overrules_a_claim():
    assert surprises(LOSES, {"saw": {"no_lost_ack": "violated"}}, {Condition.NO_LOST_ACK: ALWAYS}) == []


def test_an_expected_verdict_that_is_undecided_or_missing_is_a_surprise():
    found = surprises(LOSES, {"saw": {"durable": "holds", "strict": "holds", "no_lost_ack": "violated"}}, {})
    assert [(odd.condition, odd.found) for odd in found] == [("durable", "undecided"), ("strict", "not judged")]


@pytest.mark.parametrize("words", ["", "short", "a title of many words " * 6])
def test_the_first_line_is_no_wider_than_a_terminal_and_has_a_colon_only_before_a_title(words):
    first, *more = title(SimpleNamespace(name="bs", title=words, seed=1))
    assert max(map(len, [first, *more])) <= 80
    assert first.startswith("bs: ") if words else first == "bs   (seed 1)"


def test_a_bar_ends_at_its_total_though_its_shares_add_up_to_more(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with bar("a sum", 1) as shown:
            for _ in range(11):
                shown.update(0.1)
                shown.refresh()
            assert shown.n == 1


def test_a_bar_over_jobs_says_how_many_have_ended_and_how_long_the_rest_takes(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert performed("crash mine", abs, [-1, -2, -3], 1) == [1, 2, 3]
    shown = terminal.getvalue().split("\r")
    assert any("crash mine, 2 of 3  67%" in line and ", left 00:0" in line for line in shown)
    assert max(map(len, shown)) <= 80


class Terminal(StringIO):
    """Standard error as a terminal, on which bars are drawn."""

    def isatty(self):
        return True
