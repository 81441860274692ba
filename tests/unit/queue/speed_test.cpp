// Tests that the table is quick with 10,000 jobs in it: what each poll asks for, the start of a server, the
// order.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>

#include "queue/sqlite_rows.h"
#include "queue/turn_queue.h"
#include "table_case.h"

namespace tachy::queue {
namespace {

// Sanitizers slow everything down. A shared machine has bad moments, so the processor's time is measured
// and not the clock's, and the median of many is compared.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlower = 20;
#else
constexpr double kSlower = 1;
#endif

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median_seconds(int times, const std::function<void(int)>& body, double (*now)() = processor_seconds) {
  std::vector<double> seconds;
  for (int i = 0; i < times; ++i) {
    const double begin = now();
    body(i);
    seconds.push_back(now() - begin);
  }
  std::nth_element(seconds.begin(), seconds.begin() + times / 2, seconds.end());
  return seconds[static_cast<size_t>(times / 2)];
}

class Speed : public Folder {
 protected:
  // Fills the table without waiting for the disk: `ended` jobs that have ended, and `queued` that wait.
  void fill(int ended, int queued) {
    { SqliteTable made(file()); }
    Sqlite database(file(), Sqlite::Access::write);
    database.run("PRAGMA synchronous = OFF");
    Transaction all(database);
    for (int i = 0; i < ended + queued; ++i) {
      JobRow job = a_job(i % 3 ? "anna" : "bert", 10 + i % 7);
      job.place = i, job.needs = i % 5 ? "A" : "B", job.settings.assign(2000, 'x'),
      job.request.assign(500, 'y');
      job.created_ms = i;
      insert_job(database, job);
      ids_.push_back(job.id);
      if (i < ended)
        database.change("UPDATE jobs SET status = 2, ended_ms = ?, progress = 100 WHERE id = ?", i, job.id);
    }
    all.commit();
  }
  std::vector<std::string> ids_;
};

TEST_F(Speed, OfTenThousandJobs) {
  fill(10'000, 0);
  EXPECT_LE(median_seconds(5, [&](int) { SqliteTable(file()).recover("local"); }), 0.2 * kSlower);
  SqliteTable table(file());
  const double find = median_seconds(2000, [&](int i) { table.find(ids_[static_cast<size_t>(i * 5)]); });
  EXPECT_LE(find, 50e-6 * kSlower);
  const std::string anna = "anna";
  const double first = median_seconds(100, [&](int) { table.list(&anna, "", 20, false); });
  const double last = median_seconds(100, [&](int) { table.list(&anna, ids_[100], 20, false); });
  EXPECT_LE(first, 2e-3 * kSlower);
  EXPECT_LE(last, 3 * first + 100e-6) << "a page costs more the later it comes";
  EXPECT_LE(median_seconds(20, [&](int) { table.counts(); }), 5e-3 * kSlower);
  RecordProperty("find_microseconds", static_cast<int>(find * 1e6));
}

TEST_F(Speed, OfAThousandThatWait) {
  fill(10'000, 1000);
  SqliteTable table(file());
  TurnQueue queue(table);
  queue.set({"A"}, {3}, 1);
  EXPECT_EQ(queue.order().size(), 1000u);
  EXPECT_LE(median_seconds(1000, [&](int i) { queue.find(ids_[static_cast<size_t>(10'000 + i)]); }),
            20e-6 * kSlower);
  std::vector<double> anew;  // after a change of the table
  for (int i = 0; i < 21; ++i) {
    table.set_paused(ids_[10'500], i % 2 == 0);
    anew.push_back(median_seconds(1, [&](int) { queue.find(ids_[10'001]); }));
  }
  std::nth_element(anew.begin(), anew.begin() + 10, anew.end());
  EXPECT_LE(anew[10], 20e-3 * kSlower);
  RecordProperty("order_microseconds", static_cast<int>(anew[10] * 1e6));
}

// A reader never waits for the writer, who waits for the disk within a transaction.
TEST_F(Speed, OfReadingBesideAWriter) {
  fill(100, 0);
  SqliteTable table(file());
  Sqlite writer(file(), Sqlite::Access::write);
  Transaction long_one(writer);
  writer.change("UPDATE jobs SET progress = 50");
  EXPECT_LE(median_seconds(
                200, [&](int i) { EXPECT_EQ(table.find(ids_[static_cast<size_t>(i % 100)])->progress, 100); },
                wall_seconds),
            200e-6 * kSlower);
}

}  // namespace
}  // namespace tachy::queue
