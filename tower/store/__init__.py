"""Floor 1: the only place that knows SQL. Operations are plain functions over a connection."""
