"""examples/gymnasium with Gymnasium's own checker, and an agent that must do better than a bad one.

    test_gymnasium.py POINTSMAN SCENARIO
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "gymnasium"))

import warnings

from gymnasium.utils.env_checker import check_env
from pointsman_env import PointsmanEnv


def episode(env, seed, policy):
    observation, info = env.reset(seed=seed)
    total, seen, truncated = 0.0, [observation.tolist()], False
    while not truncated:
        observation, reward, terminated, truncated, info = env.step(policy(observation))
        assert not terminated
        total += reward
        seen.append(observation.tolist())
    assert info["outcome"]["checks"]["violations"] == 0, info
    return total, seen


pointsman, scenario = sys.argv[1:]
env = PointsmanEnv(scenario, pointsman)
with warnings.catch_warnings():
    # The bounds of observations are open; the checker warns of it.
    warnings.simplefilter("ignore")
    check_env(env, skip_render_check=True, skip_close_check=True)

good, first = episode(env, 7, lambda o: 1 if o[0] > 85 or (o[5] > 0 and o[0] > 60) else 0)
again, second = episode(env, 7, lambda o: 1 if o[0] > 85 or (o[5] > 0 and o[0] > 60) else 0)
assert first == second and good == again, "equal seeds and actions, other observations"
bad, _ = episode(env, 7, lambda o: 6)
assert good > bad + 20, (good, bad)
try:
    env.step(0)
    raise AssertionError("the episode was over")
except RuntimeError as error:
    assert "reset" in str(error), error
try:
    env.reset(seed=1)
    env.step(7)
    raise AssertionError("7 is not a weight here")
except RuntimeError as error:
    assert "0 to 6" in str(error), error
env.close()
print(f"good {good}, bad {bad}")
