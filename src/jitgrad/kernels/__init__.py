"""What runs natively: vector math, loops, the entry points of a tape, and the cache of compiled code."""
