"""The first gradient of a process, import included, with a warm kernel cache."""

import subprocess
import sys

PROGRAM = "import numpy as np, jitgrad as jg; jg.grad(lambda x: np.sum(np.tanh(x) * x))(np.ones(10))"


class FirstGradient:
    """Wall time of a whole process."""

    number = 1
    repeat = (3, 10, 20.0)
    timeout = 300

    def setup(self):
        subprocess.run([sys.executable, "-c", PROGRAM], check=True)  # fills the kernel cache

    def time_process(self):
        subprocess.run([sys.executable, "-c", PROGRAM], check=True)
