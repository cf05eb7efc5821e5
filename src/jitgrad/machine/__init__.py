"""The compiled replay: a captured program, passes over it, a plan of rows, and the native loop that runs them."""
