// Tests what a disk and a file can do to the table: full, read-only, damaged, of another program, older,
// newer.
#include <fstream>
#include <sstream>
#include <tuple>

#include "queue/sqlite_rows.h"
#include "queue/sqlite_schema.h"
#include "small_disk.h"
#include "table_case.h"

namespace tachy::queue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal_to_open(const fs::path& file, ErrorCode code = ErrorCode::io) {
  return message_of(code, [&] { SqliteTable table(file); });
}

// Inserts until it fails, and says how far it came: "17 inserted, then: …". Everything before the failure is
// there.
std::string insert_until_full(SqliteTable& table, int64_t& inserted) {
  JobRow job = a_job();
  job.settings.assign(20'000, 'x');
  for (inserted = 0; inserted < 1000; ++inserted) {
    job.id = new_job_id();
    try {
      table.insert(job, "key" + std::to_string(inserted), "print", 0, 0);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::io) return "another code";
      if (table.counts().queued != inserted) return "something was lost or half done";
      return error.message();
    }
  }
  return "the disk never was full";
}

class Disk : public Folder {};

// A kill leaves what the system has been given; only these settings keep it over a power cut.
TEST_F(Disk, IsWaitedForByEveryChange) {
  SqlitePool pool(file());
  const auto [mode, sync, keys] = pool.write([](Sqlite& database) {
    const auto asked = [&](const char* pragma) {
      Query query = database.query(pragma);
      return query.next() ? query.text(0) : "";
    };
    return std::tuple(asked("PRAGMA journal_mode"), asked("PRAGMA synchronous"),
                      asked("PRAGMA foreign_keys"));
  });
  EXPECT_EQ(mode, "wal");
  EXPECT_EQ(sync, "2");
  EXPECT_EQ(keys, "1");
}

TEST_F(Disk, ThatIsFullIsReportedAndRecovers) {
  const std::string said = in_child([&]() -> std::string {
    const fs::path disk = folder_ / "disk";
    fs::create_directory(disk);
    if (!mount_small(disk, "size=1m")) return "skipped";
    const fs::path filler = disk / "filler";
    std::ofstream(filler) << std::string(100'000, 'x');
    SqliteTable table(disk / "tachyscope.db");
    int64_t inserted = 0;
    const std::string message = insert_until_full(table, inserted);
    fs::remove(filler);  // room again
    if (table.insert(a_job(), "", "", 0, 0).how != Inserted::How::made) return "not accepted";
    if (table.counts().queued != inserted + 1) return "lost";
    return message;
  });
  if (said == "skipped") GTEST_SKIP() << "only root may mount a small disk";
  EXPECT_THAT(said, AllOf(HasSubstr("tachyscope.db"), HasSubstr("full"), HasSubstr("no room on its disk")));
}

TEST_F(Disk, ThatLimitsFilesIsReported) {
  const std::string said = in_child([&] {
    limit_files(600'000);
    SqliteTable table(file());
    int64_t inserted = 0;
    return insert_until_full(table, inserted);
  });
  EXPECT_THAT(said, AllOf(HasSubstr("tachyscope.db"), HasSubstr("I/O error"), HasSubstr("File too large")));
  SqliteTable table(file());  // without the limit it goes on
  const int64_t before = table.counts().queued;
  EXPECT_GT(before, 5);
  table.insert(a_job(), "", "", 0, 0);
  EXPECT_EQ(table.counts().queued, before + 1);
}

TEST_F(Disk, ThatIsReadOnlyIsReported) {
  const std::string said = in_child([&]() -> std::string {
    const fs::path disk = folder_ / "disk";
    fs::create_directory(disk);
    if (!mount_small(disk, "size=4m")) return "skipped";
    { SqliteTable(disk / "tachyscope.db").insert(a_job(), "", "", 0, 0); }
    if (!make_read_only(disk)) return "skipped";
    return refusal_to_open(disk / "tachyscope.db") + "; new: " + refusal_to_open(disk / "new.db");
  });
  if (said == "skipped") GTEST_SKIP() << "only root may mount a disk";
  EXPECT_THAT(said, AllOf(HasSubstr("tachyscope.db: cannot write"), HasSubstr("can only be read"),
                          HasSubstr("new.db: cannot open")));
}

TEST_F(Disk, WithoutTheFolderIsReported) {
  EXPECT_THAT(refusal_to_open(folder_ / "none" / "tachyscope.db"),
              AllOf(HasSubstr("none/tachyscope.db: cannot open"), HasSubstr("No such file")));
  fs::create_directory(file());
  EXPECT_THAT(refusal_to_open(file()), HasSubstr("cannot open"));
}

TEST_F(Disk, FilesThatAreDamagedAreReported) {
  std::ofstream(file()) << "this is no database, but long enough to be taken for the header of one: "
                        << std::string(500, 'x');
  EXPECT_THAT(refusal_to_open(file()),
              AllOf(HasSubstr("not a database"), HasSubstr("damaged or was not written")));
  fs::remove(file());
  {
    SqliteTable table(file());
    for (int i = 0; i < 200; ++i) table.insert(a_job(), "", "", 0, 0);
  }
  const auto size = static_cast<std::streamoff>(fs::file_size(file()));
  {
    std::fstream bytes(file(), std::ios::in | std::ios::out | std::ios::binary);
    for (std::streamoff at = 4096; at < size; at += 512) bytes.seekp(at) << std::string(300, '\x55');
  }
  const std::string said = message_of(ErrorCode::io, [&] {
    SqliteTable table(file());
    table.waiting();
    table.list(nullptr, "", 100, false);
  });
  EXPECT_THAT(said, AllOf(HasSubstr("damaged"), HasSubstr("restore it from a copy")));
}

TEST_F(Disk, FilesOfOtherProgramsAreLeftAlone) {
  { Sqlite(file(), Sqlite::Access::write).run("CREATE TABLE recipes (name TEXT)"); }
  const auto bytes = fs::file_size(file());
  EXPECT_THAT(refusal_to_open(file()), HasSubstr("another program"));
  EXPECT_EQ(fs::file_size(file()), bytes);
  Sqlite database(file(), Sqlite::Access::read);
  Query query = database.query("PRAGMA journal_mode");
  ASSERT_TRUE(query.next());
  EXPECT_EQ(query.text(0), "delete");
}

TEST_F(Disk, FilesOfANewerVersionAreRefused) {
  { SqliteTable table(file()); }
  { Sqlite(file(), Sqlite::Access::write).run("PRAGMA user_version = 1000"); }
  EXPECT_THAT(
      refusal_to_open(file(), ErrorCode::unsupported),
      AllOf(HasSubstr("newer version"), HasSubstr("1000"), HasSubstr(std::to_string(newest_schema()))));
}

// Returns the statements that make the tables, sorted, without their spaces.
std::vector<std::string> tables_of(const fs::path& file) {
  Sqlite database(file, Sqlite::Access::read);
  Query query = database.query("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name");
  std::vector<std::string> found;
  while (query.next()) found.push_back(query.text(0));
  return found;
}

TEST_F(Disk, OlderVersionsBecomeTodays) {
  { SqliteTable today(folder_ / "today.db"); }
  for (int version = 1; version < newest_schema(); ++version) {
    const fs::path text =
        fs::path(TACHY_SOURCE_DIR) / "tests/unit/queue" / fmt::format("version_{}.sql", version);
    std::ostringstream sql;
    sql << std::ifstream(text).rdbuf();
    ASSERT_FALSE(sql.str().empty()) << text << " is missing";
    const fs::path old = folder_ / fmt::format("version_{}.db", version);
    { Sqlite(old, Sqlite::Access::write).run(sql.str().c_str()); }
    const fs::path made = folder_ / fmt::format("made_{}.db", version);
    {
      Sqlite database(made, Sqlite::Access::write);
      migrate(database, version);
    }
    EXPECT_EQ(tables_of(old), tables_of(made)) << "a step that was released has changed";

    SqliteTable table(old);
    EXPECT_EQ(tables_of(old), tables_of(folder_ / "today.db"));
    const std::string id = "video_0000000000000000000000000000000";
    const JobRow one = table.find(id + "1").value(), two = table.find(id + "2").value();
    const JobRow four = table.find(id + "4").value();
    EXPECT_EQ(one.status, Status::completed);
    EXPECT_EQ(one.facts, R"({"seconds":"5.06"})");
    EXPECT_EQ(one.request, R"({"prompt":"one"})");
    EXPECT_EQ(one.bytes, 1234u);
    EXPECT_EQ(two.wish, Wish::cancel);
    EXPECT_EQ(two.progress, 41);
    EXPECT_EQ(two.settings, R"({"seed":2})");
    EXPECT_EQ(four.place, 3.5);
    EXPECT_EQ(four.priority, 3);
    EXPECT_TRUE(four.paused);
    EXPECT_EQ(table.recover("local").size(), 1u);
    EXPECT_EQ(table.due_webhooks(1700000040000, 5).size(), 1u);
    EXPECT_EQ(table.presets("anna").size(), 1u);
    EXPECT_TRUE(table.claim(table.insert(a_job("anna"), "", "", 0, 0).row.id, "w").has_value());
    EXPECT_GT(table.used_seconds()["anna"], 9);
  }
}

}  // namespace
}  // namespace tachy::queue
