"""A simulated rack as a Gymnasium environment: an agent sets the weight of its accelerators.

    env = PointsmanEnv("scenarios/p4wise.toml")
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(1)

Observations: utilisation of processors and accelerators in per cent, P99 in ms, requests per second and server, share of lost requests,
current weight. Actions: the next weight. Rewards: P4Wise's. `info["decided"]` is the oracle's assessment.
"""

import json
import subprocess

import gymnasium
import numpy as np


class PointsmanEnv(gymnasium.Env):
    metadata = {"render_modes": []}

    def __init__(self, scenario, pointsman="pointsman"):
        command = [pointsman, "sim", scenario, "--serve"]
        self.simulator = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.description = self._ask("describe")
        self.action_space = gymnasium.spaces.Discrete(self.description["max_weight"] + 1)
        shape = (len(self.description["observation"]),)
        self.observation_space = gymnasium.spaces.Box(0.0, np.inf, shape, np.float64)

    def _ask(self, what, **values):
        self.simulator.stdin.write(json.dumps({what: values}) + "\n")
        self.simulator.stdin.flush()
        line = self.simulator.stdout.readline()
        answer = json.loads(line) if line else {"error": "the simulator exited; see its output above"}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        answer = self._ask("reset", **({} if seed is None else {"seed": seed}))
        return np.array(answer["observation"], np.float64), answer["info"]

    def step(self, action):
        answer = self._ask("act", weight=int(action))
        observation = np.array(answer["observation"], np.float64)
        return observation, answer["reward"], answer["terminated"], answer["truncated"], answer["info"]

    def close(self):
        if self.simulator.poll() is None:
            self._ask("close")
            self.simulator.stdin.close()
            self.simulator.wait()
        self.simulator.stdout.close()
