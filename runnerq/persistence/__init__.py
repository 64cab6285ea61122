"""Where everything is kept: the storage protocol, its records, and the backends."""
