"""``rpsim bench components``: what each component of the models costs, in shares and ratios."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from ...terminal.text import table


def main(options: argparse.Namespace) -> int:
    """Measure, print; returns 0: no component has an aim."""
    from ....validation.speed.bench import SIZES
    from ....validation.speed.components import of_component, of_feature, with_everything
    from ...terminal.envelope import envelope

    count_of = {size: (500 if options.quick else 4_000) * SIZES[0] // size + 200 for size in SIZES}
    shares = {size: of_component(size, count_of[size]) for size in SIZES}
    everything = {size: with_everything(size, count_of[size]) for size in SIZES}
    ratios = {size: of_feature(size, count_of[size]) for size in SIZES}
    if options.json:
        answer = {
            "components": {str(size): rounded(shares[size]) for size in SIZES},
            "components_with_everything": {str(size): rounded(everything[size]) for size in SIZES},
            "features": {str(size): {name: round(ratio, 3) for name, ratio in ratios[size].items()} for size in SIZES},
        }
        print(envelope(options, answer), end="")
        return 0
    head = [f"{size} B" for size in SIZES]
    lines = ["where the time of a WRITE goes, by component (under the profiler)"]
    lines += by_component_rows(shares)
    lines += ["", "the same traced, into Optane, with DDIO off: every component has to work"]
    lines += by_component_rows(everything)
    lines += ["", "a WRITE with it takes so many times as long to simulate"]
    lines += table(
        ["feature", *head], [[name, *(f"{ratios[size][name]:.2f}" for size in SIZES)] for name in ratios[SIZES[0]]]
    )
    print("\n".join(lines))
    return 0


def by_component_rows(shares: Mapping[int, Mapping[str, float]]) -> list[str]:
    """A row for each component, a column for each size."""
    from ....validation.speed.bench import SIZES

    names = dict.fromkeys(name for size in SIZES for name in shares[size])
    rows = [[name, *(f"{shares[size].get(name, 0.0):.1%}" for size in SIZES)] for name in names]
    return table(["component", *(f"{size} B" for size in SIZES)], rows)


def rounded(shares: Mapping[str, float]) -> dict[str, float]:
    """Shares as JSON has them."""
    return {name: round(share, 4) for name, share in shares.items()}
