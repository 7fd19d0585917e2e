"""Numbers become points: one clause at a time, and all that compare no nodes at once."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.decision import scoring
from engine.program.program import ScoreProgram

numbers = st.floats(-1e300, 1e308) | st.integers(-3, 103).map(float) | st.just(math.nan)
weights = st.floats(0.01, 1000).flatmap(lambda weight: st.sampled_from([weight, -weight]))
ranges = st.none() | st.tuples(
    st.integers(-100, 100).map(float), st.integers(-100, 100).map(float)
).filter(lambda edges: edges[0] != edges[1])


@st.composite
def clauses(draw: st.DrawFn) -> ScoreProgram:
    return ScoreProgram(
        policy="p",
        name="s",
        weight=draw(weights),
        when=None,
        value=lambda _: 0,
        range=draw(ranges),
        missing=float(draw(st.integers(0, 100))),
        time_dependent=False,
    )


def expected(clause: ScoreProgram, number: float) -> float:
    """The formula of the reference (docs/language.md, score)."""
    if math.isnan(number):
        return clause.missing
    if clause.range is not None:
        assert isinstance(clause.range, tuple)
        low, high = clause.range
        number = 100 * (number - low) / (high - low)
    placed = min(max(number, 0.0), 100.0)
    return 100 - placed if clause.weight < 0 else placed


@given(st.lists(clauses(), min_size=1, max_size=4), st.data())
def test_all_at_once_is_one_by_one(given: list[ScoreProgram], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 3))
    rows = [data.draw(st.lists(numbers, min_size=size, max_size=size)) for _ in given]
    values = np.array(rows)
    wanted = [[expected(c, n) for n in row] for c, row in zip(given, rows, strict=True)]
    scale = scoring.Scale(given)
    assert scale.points(values).tolist() == wanted
    singles = [scoring.points(c, row) for c, row in zip(given, values, strict=True)]
    assert [each.tolist() for each in singles] == wanted
    terms = [(abs(c.weight), row) for c, row in zip(given, singles, strict=True)]
    assert scale.scores(values).tolist() == scoring.scores(terms).tolist()
