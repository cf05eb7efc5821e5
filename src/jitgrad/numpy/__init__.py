"""NumPy's namespace, for arrays and tensors alike: ``import jitgrad.numpy as jnp``."""
