"""Tower: a dispatcher daemon for headless coding agents that you can leave alone, and believe."""

__version__ = "0.1.0"
