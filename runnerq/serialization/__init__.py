"""Values to JSON text and back, typed; argument digests; failures as data."""
