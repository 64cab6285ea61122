"""The client for code without an event loop: the same verbs, each of which waits for its answer."""
