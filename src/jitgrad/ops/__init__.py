"""What can be recorded, one file a family."""

from jitgrad.ops import arithmetic, casting, reductions, shaping

__all__ = ["arithmetic", "casting", "reductions", "shaping"]
