"""Floor 5: the client of a running tower; standard library only, since a verb is to start as fast as Python does."""
