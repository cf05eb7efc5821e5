"""asv suites: jitgrad by itself, over commits. The comparison with other tools is in `benchmarks.peers`."""

import sys
from pathlib import Path

# the workloads are shared with the comparison, which asv does not put on the path
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
