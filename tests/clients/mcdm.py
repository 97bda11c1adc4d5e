# SPDX-License-Identifier: Apache-2.0
"""What ahpy and pymcdm make of the cases on standard input, one a line; one line of numbers for each on standard output."""

import sys
import warnings

import numpy as np
from ahpy import Compare
from pymcdm.methods import PROMETHEE_II


def ahp(n, numbers):
    """Judgements, row by row: consistency ratio and weights. Only those above the diagonal are given to ahpy."""
    names = [f"c{i}" for i in range(n)]
    pairs = {(names[i], names[j]): numbers[i * n + j] for i in range(n) for j in range(i + 1, n)}
    found = Compare("all", pairs, precision=12, random_index="dd", iterations=1000)
    return [found.consistency_ratio] + [found.local_weights[name] for name in names]


def promethee(function, n, m, numbers):
    """n alternatives, m criteria: p, q, weights, types (1 for benefit), then the values row by row."""
    p, q, weights, types = (np.array(numbers[i * m : (i + 1) * m]) for i in range(4))
    matrix = np.array(numbers[4 * m :]).reshape(n, m)
    arguments = {"usual": {}, "ushape": {"q": q}, "vshape": {"p": p}}.get(function, {"p": p, "q": q})
    return PROMETHEE_II(function, **arguments)(matrix, weights / weights.sum(), types)


warnings.filterwarnings("ignore", message="Alternatives with indices")
for line in sys.stdin:
    kind, *words = line.split()
    if kind == "ahp":
        result = ahp(int(words[0]), [float(w) for w in words[1:]])
    else:
        result = promethee(words[0], int(words[1]), int(words[2]), [float(w) for w in words[3:]])
    print(*(repr(float(x)) for x in result))
