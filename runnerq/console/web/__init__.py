"""The console's web half: who is let in, what is answered, and what goes wrong. Pages and the API stand on it."""
