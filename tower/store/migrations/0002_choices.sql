-- What the sender of a chain asked of agents for it: {"AGENT": {"model": "...", "args": ["..."]}}
ALTER TABLE itineraries ADD COLUMN choices TEXT NOT NULL DEFAULT '{}';
