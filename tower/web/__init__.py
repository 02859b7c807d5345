"""Floor 4: the HTTP API on the control socket. Who asks, what is asked, and how an answer looks; nothing else."""
