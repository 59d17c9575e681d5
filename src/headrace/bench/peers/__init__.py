"""Other loaders, and this one, in one shape: each in a process of its own that runs an epoch whenever it is told."""
