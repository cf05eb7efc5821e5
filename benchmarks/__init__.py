"""Speed and memory of jitgrad: asv suites (``bench_*.py``) and a side-by-side run against its peers."""
