"""Floor 1: what touches the operating system: processes, trees, workspaces, locks, watching, the service."""
