-- A database as version 3 wrote it, with rows in every table.
CREATE TABLE jobs (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  status INTEGER NOT NULL,
  paused INTEGER NOT NULL,
  wish INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  place REAL NOT NULL,
  model TEXT NOT NULL,
  needs TEXT NOT NULL,
  kind TEXT NOT NULL,
  planned_seconds REAL NOT NULL,
  created_ms INTEGER NOT NULL,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  progress INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  worker TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  error_code TEXT NOT NULL,
  error_message TEXT NOT NULL,
  facts TEXT NOT NULL
);
CREATE INDEX jobs_of_owner ON jobs (owner, seq);
CREATE INDEX jobs_by_status ON jobs (status, owner);
CREATE INDEX jobs_in_line ON jobs (place) WHERE status < 2;
CREATE INDEX jobs_ended ON jobs (ended_ms) WHERE status >= 2;
CREATE TABLE job_texts (
  seq INTEGER PRIMARY KEY REFERENCES jobs (seq) ON DELETE CASCADE,
  request TEXT NOT NULL,
  settings TEXT NOT NULL
);
CREATE TABLE idempotency (
  owner TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  seq INTEGER NOT NULL REFERENCES jobs (seq) ON DELETE CASCADE,
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (owner, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_of_job ON idempotency (seq);
CREATE INDEX idempotency_by_age ON idempotency (created_ms);
CREATE TABLE webhooks (
  id TEXT PRIMARY KEY,
  job TEXT NOT NULL,
  type TEXT NOT NULL,
  body TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  due_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX webhooks_due ON webhooks (due_ms);
CREATE TABLE presets (
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  fields TEXT NOT NULL,
  PRIMARY KEY (owner, name)
) WITHOUT ROWID;
CREATE TABLE shares (
  owner TEXT PRIMARY KEY,
  seconds REAL NOT NULL,
  at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE usage (
  owner TEXT NOT NULL,
  day INTEGER NOT NULL,
  model TEXT NOT NULL,
  jobs INTEGER NOT NULL,
  frames INTEGER NOT NULL,
  pixels REAL NOT NULL,
  seconds REAL NOT NULL,
  PRIMARY KEY (owner, day, model)
) WITHOUT ROWID;
INSERT INTO jobs VALUES (1,'video_00000000000000000000000000000001','anna',2,0,0,0,1.0,'wan','wan','video',
  30.0,1700000000000,1700000001000,1700000031000,0,100,1,'local',1234,'','','{"seconds":"5.06"}');
INSERT INTO jobs VALUES (2,'video_00000000000000000000000000000002','anna',1,0,1,0,2.0,'wan','wan','video',
  30.0,1700000002000,1700000032000,0,0,41,1,'local',0,'','','{}');
INSERT INTO jobs VALUES (4,'video_00000000000000000000000000000004','',0,1,0,3,3.5,'talk','talk','video',
  12.5,1700000003000,0,0,0,0,0,'',0,'','','{}');
INSERT INTO job_texts VALUES (1,'{"prompt":"one"}','{"seed":1}');
INSERT INTO job_texts VALUES (2,'{"prompt":"two"}','{"seed":2}');
INSERT INTO job_texts VALUES (4,'{"prompt":"four"}','{"seed":4}');
INSERT INTO idempotency VALUES ('anna','key','print',2,1700000002000);
INSERT INTO webhooks VALUES ('msg_1','video_00000000000000000000000000000001','video.completed','{}',2,1700000040000);
INSERT INTO presets VALUES ('anna','fast','{"num_inference_steps":4}');
UPDATE sqlite_sequence SET seq = 4 WHERE name = 'jobs';
PRAGMA application_id = 1415668584;
PRAGMA user_version = 3;
INSERT INTO shares VALUES ('anna', 12.5, 1700000000000);
INSERT INTO usage VALUES ('anna', 19675, 'wan', 1, 81, 32348160, 40);
