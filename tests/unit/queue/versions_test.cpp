// Tables of one version, used by programs of another.
#include "queue/postgres_schema.h"
#include "table_case.h"

namespace tachy::queue {
namespace {

class Versions : public OfKind {};
INSTANTIATE_TEST_SUITE_P(Postgres, Versions, testing::Values(Kind::postgres));

constexpr int kBeforeAwaits = 2;

// Claims a job as programs of that version do, which know of no job that waits for others. Returns whether they have it.
bool claimed_by_older(const Place& place, const std::string& id) {
  return place.number(
             "WITH taken AS (UPDATE jobs SET status = 1, worker = 'old', attempts = attempts + 1 WHERE seq = "
             "(SELECT seq FROM jobs WHERE id = '" +
             id +
             "' AND status = 0 AND NOT paused FOR UPDATE SKIP LOCKED) RETURNING *) SELECT count(*) FROM "
             "taken") == 1;
}

// While hosts are upgraded one after another, those of the version before go on.
TEST_P(Versions, AnOlderHostBeginsNoJobThatWaitsForOthers) {
  {
    postgres::Pool pool(database_of_tests(), place_->schema, 5);
    migrate(pool, kBeforeAwaits);
  }
  const auto table = place_->open_postgres({});  // the first host that is upgraded
  EXPECT_EQ(place_->number("SELECT version FROM schema_version"), newest_postgres_schema());
  EXPECT_LE(place_->number("SELECT works_with FROM schema_version"), kBeforeAwaits)
      << "an older host may start again";
  const std::string source = table->insert(a_job(), "", "", 0, 0).row.id;
  JobRow job = a_job();
  job.awaits = source;
  table->insert(job, "", "", 0, 0);
  EXPECT_FALSE(claimed_by_older(*place_, job.id)) << "to the older host somebody else has taken it";
  EXPECT_EQ(table->find(job.id)->status, Status::queued);
  EXPECT_EQ(table->find(job.id)->attempts, 0);
  EXPECT_TRUE(claimed_by_older(*place_, source));
  Change change;
  change.awaits = "";
  table->change(job.id, change);
  EXPECT_TRUE(claimed_by_older(*place_, job.id)) << "it waits for nothing more";
}

}  // namespace
}  // namespace tachy::queue
