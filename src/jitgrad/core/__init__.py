"""What a tape is: array types, ops and their registry, tape, tensor, tracing, and the replays."""
