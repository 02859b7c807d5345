"""Floor 4: the door for agents. The tower's tools over MCP, for whoever shows the token of a run.

`door` is light and always there; `server` and `tools` import the SDK, and so are imported when they are first needed.
"""
