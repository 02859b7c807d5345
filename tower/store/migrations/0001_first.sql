-- Times are seconds since the Unix epoch (UTC); money is integer micro-dollars; sizes are bytes; NULL is unknown.
-- What is older than `retention_days` goes by itinerary: whatever belongs to one refers to it with ON DELETE CASCADE.

CREATE TABLE itineraries (
  id               TEXT PRIMARY KEY,
  created_at       REAL NOT NULL,
  name             TEXT,
  pipeline         TEXT,
  flags            TEXT NOT NULL DEFAULT '{}',
  max_hops         INTEGER NOT NULL,
  max_runs         INTEGER NOT NULL,
  fuel_limit       INTEGER NOT NULL,
  fuel_spent       INTEGER NOT NULL DEFAULT 0,
  fuel_reserved    INTEGER NOT NULL DEFAULT 0,
  runs_started     INTEGER NOT NULL DEFAULT 0,
  spawn_generation INTEGER NOT NULL DEFAULT 0,
  parent           TEXT REFERENCES itineraries (id) ON DELETE SET NULL,
  narrowing        TEXT,
  cancelled_at     REAL,
  overshot_at      REAL
) STRICT;

CREATE INDEX itineraries_spawned ON itineraries (parent) WHERE parent IS NOT NULL;

CREATE TABLE flights (
  id             TEXT PRIMARY KEY,
  itinerary      TEXT NOT NULL REFERENCES itineraries (id) ON DELETE CASCADE,
  sender_kind    TEXT NOT NULL,
  sender_name    TEXT NOT NULL,
  sender_ref     TEXT,
  receiver       TEXT NOT NULL,
  body           TEXT NOT NULL,
  created_at     REAL NOT NULL,
  state          TEXT NOT NULL,
  hops_remaining INTEGER NOT NULL,
  priority       INTEGER NOT NULL,
  key            TEXT,
  not_before     REAL,
  held_reason    TEXT,
  reason         TEXT,
  release_at     REAL,
  attempt        INTEGER NOT NULL DEFAULT 1,
  cause          TEXT NOT NULL DEFAULT 'dispatch',
  follows_run    TEXT,
  note           TEXT,
  outcome        TEXT,
  ended_at       REAL,
  approved_at    REAL,
  approved_by    TEXT,
  approval_note  TEXT,
  -- Of those that a join released together: the first of them, and the place of this one.
  joined         TEXT REFERENCES flights (id) ON DELETE CASCADE,
  place          INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX flights_of_itinerary ON flights (itinerary);
-- A line is what one chain has queued for one agent with one priority, in the order in which it is served.
-- Of those that a join released together, the first stands in line for all.
CREATE INDEX flights_of_line ON flights (receiver, itinerary, priority, created_at, id)
  WHERE state = 'queued' AND not_before IS NULL AND (joined IS NULL OR joined = id);
CREATE INDEX flights_joined ON flights (joined, place) WHERE joined IS NOT NULL;
CREATE INDEX flights_open ON flights (state)
  WHERE state IN ('queued', 'held', 'parked', 'halted', 'starting', 'running');
CREATE INDEX flights_held ON flights (held_reason, priority DESC, created_at, id) WHERE state = 'held';
CREATE INDEX flights_delayed ON flights (not_before)
  WHERE state = 'queued' AND (joined IS NULL OR joined = id) AND not_before IS NOT NULL;
CREATE INDEX flights_key ON flights (key, receiver, created_at) WHERE key IS NOT NULL;
CREATE INDEX flights_sent_by ON flights (sender_ref) WHERE sender_ref IS NOT NULL;

-- The barrier of a join, in a chain where anything was delivered to it. What is parked there stands in flights.
CREATE TABLE waves (
  itinerary TEXT NOT NULL REFERENCES itineraries (id) ON DELETE CASCADE,
  receiver  TEXT NOT NULL,
  number    INTEGER NOT NULL,
  answered  TEXT NOT NULL,
  since     REAL,
  given_up  INTEGER NOT NULL,
  woke_with TEXT,
  due_at    REAL,
  PRIMARY KEY (itinerary, receiver)
) STRICT, WITHOUT ROWID;

CREATE INDEX waves_given_up ON waves (itinerary) WHERE given_up = 1;
CREATE INDEX waves_open ON waves (itinerary) WHERE since IS NOT NULL AND given_up = 0;
-- The first flight of each line, so that whose turn it is can be told without reading the queue; kept by triggers,
-- whoever moves a flight. What is not to start before some time is in no line.
CREATE TABLE lines (
  receiver   TEXT NOT NULL,
  itinerary  TEXT NOT NULL,
  priority   INTEGER NOT NULL,
  created_at REAL NOT NULL,
  first      TEXT NOT NULL,
  PRIMARY KEY (receiver, itinerary, priority)
) STRICT, WITHOUT ROWID;

CREATE INDEX lines_in_order ON lines (receiver, priority DESC, created_at, first);

CREATE TRIGGER flight_queued AFTER INSERT ON flights
  WHEN NEW.state = 'queued' AND NEW.not_before IS NULL AND NEW.joined IS NULL
BEGIN
  INSERT INTO lines (receiver, itinerary, priority, created_at, first)
    VALUES (NEW.receiver, NEW.itinerary, NEW.priority, NEW.created_at, NEW.id)
    ON CONFLICT DO UPDATE SET created_at = excluded.created_at, first = excluded.first
      WHERE (excluded.created_at, excluded.first) < (created_at, first);
END;

CREATE TRIGGER flight_moved AFTER UPDATE OF state, not_before, joined ON flights
  WHEN OLD.state = 'queued' OR NEW.state = 'queued'
BEGIN
  DELETE FROM lines WHERE receiver = NEW.receiver AND itinerary = NEW.itinerary AND priority = NEW.priority;
  INSERT INTO lines (receiver, itinerary, priority, created_at, first)
    SELECT receiver, itinerary, priority, created_at, id FROM flights
      WHERE state = 'queued' AND not_before IS NULL AND (joined IS NULL OR joined = id)
        AND receiver = NEW.receiver AND itinerary = NEW.itinerary AND priority = NEW.priority
      ORDER BY created_at, id LIMIT 1;
END;

CREATE TABLE processes (
  id           TEXT PRIMARY KEY,
  agent        TEXT NOT NULL,
  folder       TEXT NOT NULL,
  created_at   REAL NOT NULL,
  keeper_pid   INTEGER,
  keeper_ticks INTEGER,
  boot_id      TEXT,
  pid          INTEGER,
  pid_ticks    INTEGER,
  protocol     INTEGER,
  cgroup       TEXT,
  ended_at     REAL,
  last_seen_at REAL,
  kind         TEXT NOT NULL,
  runner       TEXT,
  generation   INTEGER,
  fingerprint  TEXT,
  token_sha256 TEXT,
  session      TEXT,
  turns        INTEGER NOT NULL,
  exited       INTEGER NOT NULL,
  reason       TEXT
) STRICT;

-- A resident has one living process; the index holds that, whatever the engine does.
CREATE UNIQUE INDEX processes_resident ON processes (agent) WHERE kind = 'resident' AND ended_at IS NULL;
CREATE INDEX processes_of_resident ON processes (agent, ended_at) WHERE kind = 'resident';
CREATE UNIQUE INDEX processes_token ON processes (token_sha256) WHERE token_sha256 IS NOT NULL;

CREATE TABLE standings (
  agent          TEXT PRIMARY KEY,
  paused_at      REAL,
  paused_by      TEXT,
  quarantined_at REAL,
  quarantine     TEXT,
  cleared_at     REAL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
  id              TEXT PRIMARY KEY,
  agent           TEXT NOT NULL,
  runner          TEXT NOT NULL,
  generation      INTEGER NOT NULL,
  itinerary       TEXT NOT NULL REFERENCES itineraries (id) ON DELETE CASCADE,
  process         TEXT NOT NULL REFERENCES processes (id),
  state           TEXT NOT NULL,
  attempt         INTEGER NOT NULL,
  cause           TEXT NOT NULL,
  number          INTEGER NOT NULL,
  queued_at       REAL NOT NULL,
  claimed_at      REAL NOT NULL,
  follows_run     TEXT,
  started_at      REAL,
  ended_at        REAL,
  prompt_sha256   TEXT,
  prompt_files    TEXT NOT NULL DEFAULT '{}',
  payload_sha256  TEXT,
  payload_bytes   INTEGER,
  estimate_tokens INTEGER,
  token_sha256    TEXT,
  model_asked     TEXT,
  model           TEXT,
  effort          TEXT,
  effort_sent     TEXT,
  tier            TEXT,
  context         TEXT,
  tokens_in       INTEGER,
  tokens_cached   INTEGER,
  tokens_out      INTEGER,
  cost            INTEGER,
  cost_source     TEXT,
  estimate        INTEGER,
  reserved        INTEGER NOT NULL,
  charged         INTEGER,
  exit_code       INTEGER,
  exit_signal     INTEGER,
  cpu_seconds     REAL,
  peak_memory     INTEGER,
  outcome         TEXT,
  interruption    TEXT,
  reason          TEXT,
  stopping        TEXT,
  workspace_kind  TEXT,
  workspace       TEXT,
  base_commit     TEXT,
  tree_before     TEXT,
  tree_after      TEXT,
  watched         TEXT,
  sandbox         TEXT,
  tools_at        REAL,
  frozen          TEXT,
  turn            INTEGER,
  out_from        INTEGER,
  out_to          INTEGER,
  err_from        INTEGER,
  err_to          INTEGER,
  notes           TEXT NOT NULL DEFAULT '[]'
) STRICT;

CREATE INDEX runs_open ON runs (state) WHERE state != 'ended';
CREATE INDEX runs_of_itinerary ON runs (itinerary);
CREATE INDEX runs_of_process ON runs (process);
CREATE INDEX runs_of_agent ON runs (agent, id);
-- What an agent's last runs cost, and what all cost within a window.
CREATE INDEX runs_priced ON runs (agent, id, cost) WHERE cost IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_charged ON runs (ended_at, charged) WHERE charged > 0;
CREATE UNIQUE INDEX runs_token ON runs (token_sha256) WHERE token_sha256 IS NOT NULL;

-- A released join hands several flights to one run; a recovered flight has several runs.
CREATE TABLE run_flights (
  run      TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  flight   TEXT NOT NULL REFERENCES flights (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  PRIMARY KEY (run, flight)
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_of_flight ON run_flights (flight, run);

CREATE TABLE agent_runs (
  agent TEXT PRIMARY KEY,
  count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE reports (
  run       TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
  at        REAL NOT NULL,
  headline  TEXT NOT NULL,
  body      TEXT NOT NULL,
  artifacts TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE help_requests (
  id          TEXT PRIMARY KEY,
  run         TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  itinerary   TEXT NOT NULL REFERENCES itineraries (id) ON DELETE CASCADE,
  agent       TEXT NOT NULL,
  at          REAL NOT NULL,
  blocker     TEXT NOT NULL,
  summary     TEXT NOT NULL,
  detail      TEXT NOT NULL,
  fatal       INTEGER NOT NULL,
  resolved_at REAL,
  resolved_by TEXT,
  note        TEXT
) STRICT;

CREATE INDEX help_open ON help_requests (itinerary, fatal) WHERE resolved_at IS NULL;
CREATE INDEX help_of_run ON help_requests (run);

-- Runners that cannot work at the moment; a closed circuit has no row.
CREATE TABLE circuits (
  runner    TEXT PRIMARY KEY,
  reason    TEXT NOT NULL,
  opened_at REAL NOT NULL,
  until     REAL NOT NULL,
  failures  INTEGER NOT NULL,
  probe     TEXT
) STRICT, WITHOUT ROWID;

-- Marks of the Reserve that people have been told of.
CREATE TABLE reserve_marks (
  percent INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE events (
  seq       INTEGER PRIMARY KEY AUTOINCREMENT,
  at        REAL NOT NULL,
  type      TEXT NOT NULL,
  itinerary TEXT,
  flight    TEXT,
  run       TEXT,
  agent     TEXT,
  data      TEXT NOT NULL DEFAULT '{}'
) STRICT;

CREATE INDEX events_of_itinerary ON events (itinerary, seq) WHERE itinerary IS NOT NULL;

-- Work trees of chains. A row stays until its tree is removed, whatever becomes of the chain's own records.
CREATE TABLE worktrees (
  itinerary TEXT NOT NULL,
  live      TEXT NOT NULL,
  path      TEXT NOT NULL,
  branch    TEXT NOT NULL,
  base      TEXT,
  made_at   REAL NOT NULL,
  kept      TEXT,
  PRIMARY KEY (itinerary, live)
) STRICT, WITHOUT ROWID;

CREATE TABLE generations (
  number    INTEGER PRIMARY KEY,
  digest    TEXT NOT NULL,
  path      TEXT NOT NULL,
  loaded_at REAL NOT NULL
) STRICT;
