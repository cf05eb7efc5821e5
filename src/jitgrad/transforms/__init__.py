"""Transforms of functions: each traces a function on a tape and replays the tape."""
