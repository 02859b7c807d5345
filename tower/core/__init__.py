"""Floor 0: decisions as values. No clock, no chance, no files, no logging, no event loop."""
