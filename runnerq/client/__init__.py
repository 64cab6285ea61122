"""The client, its handles, and what they answer."""
