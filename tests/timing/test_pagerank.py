"""PageRank over calls: computed from the bytes that come back, and the whole computed from a sample."""

from __future__ import annotations

import numpy as np
import pytest

from rpsim.app.commands.run import check_size
from rpsim.protocols.registry import scheme, schemes
from rpsim.protocols.scheme import Scheme
from rpsim.scenarios.build import Draft
from rpsim.scenarios.pagerank import EDGE, Graph, Record
from rpsim.scenarios.run.experiment import AssembledVariant, run_variant
from rpsim.sim.errors import InputError
from rpsim.sim.streams import Streams


def built(schemes="farm", processes=1, **workload):
    return Draft.new(
        "x", scenario="x", schemes=schemes, platform="rflush-testbed",
        roles={"client": {"machines": 1, "processes": processes}},
        workload={"kind": "pagerank", "nodes": 8, "edges": 30} | workload,
    ).build()  # fmt: skip


def refused(*args, **workload):
    with pytest.raises(InputError) as caught:
        built(*args, **workload)
    return str(caught.value)


def ran(*args, **workload):
    made = built(*args, **workload)
    return run_variant(made, made.variants()[0], recorded=False).more["pagerank"]


def finished(made):
    experiment = AssembledVariant(made, made.variants()[0])
    experiment.system.record_nothing()
    experiment.system.clock.run_until(experiment.finished)
    return experiment.ranking


@pytest.fixture
def registry(monkeypatch):
    schemes()
    monkeypatch.setattr(Scheme, "registry", dict(Scheme.registry))


def test_ranks_are_those_of_the_definition():
    graph = Graph.drawn(30, 120, Streams(3).stream("graph"))
    degrees = np.bincount(graph.sources, minlength=30)
    step = np.full((30, 30), 1 / 30)  # a node without an edge leads everywhere
    step[degrees > 0] = 0
    for source, target in zip(graph.sources, graph.targets, strict=True):
        step[source, target] += 1 / degrees[source]
    ranks = np.full(30, 1 / 30)
    for _ in range(200):
        ranks = 0.2 / 30 + 0.8 * ranks @ step
    found, iterations = graph.ranks(0.8, 1e-12, 200)
    assert found == pytest.approx(ranks, abs=1e-12) and found.sum() == pytest.approx(1)
    assert graph.ranks(0.8, 1e-7, 75)[1] < iterations < 200 and 0 in degrees
    assert not any(graph.sources == graph.targets)


def test_few_nodes_have_most_edges_and_the_seed_decides_which_they_lead_to():
    graph, other = (Graph.drawn(10_000, 72_000, Streams(seed).stream("pagerank.graph")) for seed in (1, 2))
    into = np.sort(np.bincount(graph.targets, minlength=10_000))[::-1]
    assert into[:100].sum() > 0.08 * 72_000 and into[0] > 40 * into.mean()
    assert any(graph.targets != other.targets) and graph.ranks(0.8, 1e-7, 75)[1] <= 75


@pytest.mark.parametrize("name", ["farm", "wflush-rpc", "saw"])
def test_the_ranks_come_out_of_the_bytes_that_come_back(name):
    made = built(name, edges=20, tolerance=1e-3)
    ranking = finished(made)
    expected, iterations = ranking.graph.ranks(0.8, 1e-3, 75)
    assert ranking.ranks == pytest.approx(expected, abs=1e-12) and ranking.iterations == iterations > 2
    fields = ranking.fields()
    assert fields["rpcs"] == fields["rpcs_run"] == 2 * 20 + iterations * 28 and fields["wrong_records"] == 0


def test_records_that_come_back_otherwise_make_other_ranks(registry):
    farm = scheme("farm")

    class Client(farm.Client):
        def perform(self, session, request):
            found = yield from super().perform(session, request)
            record = Record.unpack(found)
            if record is not None and record.kind == EDGE and record.number == 3:
                return record._replace(second=(record.second + 1) % 8).pack(32)
            return None if record is not None and record.kind == EDGE and record.number == 4 else found

    type("Wrong", (farm,), {"Client": Client}, name="wrong")
    ranking = finished(built("wrong", edges=20, iterations=2))
    expected, _ = ranking.graph.ranks(0.8, 1e-7, 2)
    assert abs(ranking.ranks - expected).max() > 1e-3 and ranking.wrong == 1 + 2


@pytest.mark.long
def test_the_product_is_what_the_whole_takes():
    whole, product = (ran("farm", nodes=140, edges=1024, iterations=2, sample=sample) for sample in (None, 512))
    assert product["rpcs"] == whole["rpcs"] == whole["rpcs_run"] >= 2 * product["rpcs_run"]
    for name in ("execution_time_s", "load_time_s", "iteration_time_s"):
        assert product[name] == pytest.approx(whole[name], rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["farm", "darpc", "rfp", "scalerpc", "wflush-rpc", "s-rflush-rpc"])
def test_the_product_is_what_a_hundredth_of_a_graph_of_the_paper_takes(name):
    whole, product = (ran(name, nodes=690, edges=2760, sample=sample) for sample in (None, 512))
    assert whole["iterations"] == product["iterations"] and whole["wrong_records"] == 0
    assert product["execution_time_s"] == pytest.approx(whole["execution_time_s"], rel=0.02)


def test_what_is_no_graph_is_refused():
    assert "workload.nodes: found 0, expected at least 2" in refused(nodes=0)
    assert "workload.edges: found 0, expected at least 1" in refused(edges=0)
    assert "workload.value: found 16 B, expected at least 32 B: a record's four numbers" in refused(value="16 B")
    assert "workload.damping: found 1.5, expected less than 1" in refused(damping=1.5)
    assert "workload.sample: found 100, expected at least 512" in refused(sample=100)
    assert "found the unknown key 'nods'" in (wrong := refused(nods=3)) and "did you mean 'nodes'?" in wrong
    assert "found 'pagerank' with 2 client processes, expected one" in refused("farm", 2)
    assert "found 'pagerank' for word over wflush (operations: put, get), expected schemes with put" in refused(
        "word over wflush"
    )


def test_it_has_no_values_that_crash_states_could_be_judged_by():
    with pytest.raises(InputError, match="expected ycsb, mix or schedule, whose values say who wrote them"):
        check_size(built())
