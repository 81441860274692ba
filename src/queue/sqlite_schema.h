// The tables of the database, and how a database of an older version becomes one of today's.
#pragma once

#include "queue/sqlite.h"

namespace tachy::queue {

int newest_schema();  // the version that this program writes

// Throws io for a file of another program, and unsupported for one of a newer version.
void check_known(Sqlite& database);

// Brings the database to today's version, or to `version` (for tests); an empty one gets all tables. Each
// step is a transaction of its own. Throws what check_known() throws.
void migrate(Sqlite& database, int version = newest_schema());

}  // namespace tachy::queue
