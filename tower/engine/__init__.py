"""Floor 2: carries out what the core decides, in structured concurrency, woken by events."""
