// The tables of the database in PostgreSQL, and how a database of an older version becomes one of today's.
#pragma once

#include "postgres/pool.h"

namespace tachy::queue {

int newest_postgres_schema();  // the version that this program writes

// Brings the schema of the pool to today's version, or to `version` (for tests); one that is missing is
// made. Of several servers that begin at the same time, one does it. Throws io if the rights are missing,
// and unsupported if the tables are of a newer version with which this program cannot work.
void migrate(postgres::Pool& pool, int version = newest_postgres_schema());

}  // namespace tachy::queue
