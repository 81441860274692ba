// Tests new jobs: their order and limits, keys of idempotency, pages, changes, removal.
#include "table_case.h"

namespace tachy::queue {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using How = Inserted::How;

std::vector<std::string> ids(const Page& page) {
  std::vector<std::string> ids;
  for (const JobRow& row : page.rows) ids.push_back(row.id);
  return ids;
}

class NewJobs : public Table {};
TACHY_FOR_BOTH_TABLES(NewJobs);

TEST_P(NewJobs, AreKeptAsTheyWereGiven) {
  JobRow job = a_job("anna", 12.5);
  job.priority = -3, job.model = "Wan \"14B\" é", job.needs = "a\nb; DROP TABLE jobs", job.kind = "join";
  job.paused = true, job.facts = R"({"size":"832x480"})", job.expires_ms = 77;
  const JobRow made = added(job);
  open();  // from the disk
  const JobRow found = table().find(job.id).value();
  for (const JobRow& row : {made, found}) {
    EXPECT_EQ(row.id, job.id);
    EXPECT_EQ(row.owner, "anna");
    EXPECT_EQ(row.status, Status::queued);
    EXPECT_TRUE(row.paused);
    EXPECT_EQ(row.wish, Wish::none);
    EXPECT_EQ(row.priority, -3);
    EXPECT_EQ(row.model, job.model);
    EXPECT_EQ(row.needs, job.needs);
    EXPECT_EQ(row.kind, "join");
    EXPECT_EQ(row.request, job.request);
    EXPECT_EQ(row.settings, job.settings);
    EXPECT_EQ(row.facts, job.facts);
    EXPECT_EQ(row.planned_seconds, 12.5);
    EXPECT_EQ(row.created_ms, now_ms_);
    EXPECT_EQ(row.expires_ms, 77);
    EXPECT_EQ(row.started_ms, 0);
    EXPECT_EQ(row.ended_ms, 0);
    EXPECT_EQ(row.progress, 0);
    EXPECT_EQ(row.attempts, 0);
    EXPECT_EQ(row.worker, "");
    EXPECT_EQ(row.bytes, 0u);
    EXPECT_EQ(row.error.code, "");
  }
  EXPECT_FALSE(table().find("video_0").has_value());
  EXPECT_FALSE(table().find("' OR 1=1 --").has_value());
}

TEST_P(NewJobs, OfOneIdAreAnError) {
  const JobRow job = added();
  EXPECT_THAT(message_of(ErrorCode::io, [&] { added(job); }), HasSubstr(unique()));
  EXPECT_EQ(table().counts().queued, 1);  // the transaction was taken back, and the next one works
  added();
  EXPECT_EQ(table().counts().queued, 2);
}

TEST_P(NewJobs, WaitWithinLimits) {
  const auto how = [&](const std::string& owner) { return table().insert(a_job(owner), "", "", 4, 2).how; };
  EXPECT_EQ(how("anna"), How::made);
  EXPECT_EQ(how("anna"), How::made);
  EXPECT_EQ(how("anna"), How::owner_full);
  EXPECT_EQ(how("bert"), How::made);
  EXPECT_EQ(how("cleo"), How::made);
  EXPECT_EQ(how("cleo"), How::queue_full);
  finish(line()[0]);  // those that wait count, and no others
  EXPECT_EQ(how("anna"), How::made);
  EXPECT_EQ(how("anna"), How::owner_full);
  EXPECT_EQ(table().insert(a_job("anna"), "", "", 0, 0).how, How::made);
}

TEST_P(NewJobs, OfOneKeyAreOneForADay) {
  const JobRow first = a_job("anna");
  EXPECT_EQ(table().insert(first, "key", "print", 0, 0).how, How::made);
  const Inserted again = table().insert(a_job("anna"), "key", "print", 0, 0);
  EXPECT_EQ(again.how, How::repeated);
  EXPECT_EQ(again.row.id, first.id);
  EXPECT_EQ(again.row.request, first.request);
  EXPECT_EQ(table().insert(a_job("anna"), "key", "other", 0, 0).how, How::mismatch);
  EXPECT_EQ(table().insert(a_job("bert"), "key", "other", 0, 0).how, How::made);  // keys are their owner's
  EXPECT_EQ(table().insert(a_job("anna"), "key2", "other", 0, 0).how, How::made);
  // The limits refuse no repetition.
  EXPECT_EQ(table().insert(a_job("anna"), "key", "print", 1, 1).how, How::repeated);
  finish(first.id);
  open();
  EXPECT_EQ(table().insert(a_job("anna"), "key", "print", 0, 0).row.status, Status::completed);
  now_ms_ += 24 * 3600 * 1000 - 1;
  EXPECT_EQ(table().insert(a_job("anna"), "key", "print", 0, 0).how, How::repeated);
  now_ms_ += 1;
  const Inserted later = table().insert(a_job("anna"), "key", "other", 0, 0);
  EXPECT_EQ(later.how, How::made);
  EXPECT_NE(later.row.id, first.id);
  // The key of a job that was removed is free.
  EXPECT_TRUE(table().remove(later.row.id));
  EXPECT_EQ(table().insert(a_job("anna"), "key", "third", 0, 0).how, How::made);
}

TEST_P(NewJobs, AreWholeWithTheirKeyOrNotThere) {
  for (const char* part : {"idempotency", "job_texts"}) {
    refuse(part);
    EXPECT_THAT(message_of(ErrorCode::io, [&] { table().insert(a_job(), "key", "print", 0, 0); }),
                HasSubstr("no"));
    refuse_no_more(part);
    EXPECT_EQ(table().counts().queued, 0) << part;
  }
  EXPECT_EQ(table().insert(a_job(), "key", "print", 0, 0).how, How::made);
}

TEST_P(NewJobs, ThatAreRefusedTakeNoKey) {
  added();
  EXPECT_EQ(table().insert(a_job(), "key", "print", 1, 0).how, How::queue_full);
  EXPECT_EQ(table().insert(a_job(), "key", "other", 2, 0).how, How::made);
}

TEST_P(NewJobs, AreListedInPages) {
  std::vector<std::string> all, annas;
  for (int i = 0; i < 7; ++i) {
    now_ms_ += i == 3 ? -50'000 : 0;  // a clock that is set back changes no order
    all.push_back(added(i % 2 ? "anna" : "").id);
    if (i % 2) annas.push_back(all.back());
  }
  Page page = table().list(nullptr, "", 3, true);
  EXPECT_THAT(ids(page), ElementsAre(all[0], all[1], all[2]));
  EXPECT_TRUE(page.has_more);
  page = table().list(nullptr, all[2], 4, true);
  EXPECT_THAT(ids(page), ElementsAre(all[3], all[4], all[5], all[6]));
  EXPECT_FALSE(page.has_more);
  page = table().list(nullptr, "", 2, false);
  EXPECT_THAT(ids(page), ElementsAre(all[6], all[5]));
  EXPECT_TRUE(page.has_more);
  page = table().list(nullptr, all[1], 5, false);
  EXPECT_THAT(ids(page), ElementsAre(all[0]));
  EXPECT_FALSE(page.has_more);
  EXPECT_THAT(ids(table().list(nullptr, all[0], 5, false)), IsEmpty());
  const std::string anna = "anna";
  page = table().list(&anna, "", 2, false);
  EXPECT_THAT(ids(page), ElementsAre(annas[2], annas[1]));
  EXPECT_TRUE(page.has_more);
  page = table().list(&anna, annas[1], 2, false);
  EXPECT_THAT(ids(page), ElementsAre(annas[0]));
  EXPECT_FALSE(page.has_more);
  // A job of somebody else is as unknown as one that never was.
  for (const std::string& after : {all[0], std::string("video_7")})
    EXPECT_THAT(message_of(ErrorCode::not_found, [&] { table().list(&anna, after, 2, false); }),
                HasSubstr("`after`"));
}

TEST_P(NewJobs, ThatHaveNotEndedAreListedAsTheyWait) {
  const std::string a = added("anna").id, b = added().id, c = added("anna").id, d = added("anna").id;
  table().claim(c, "worker");
  table().change(d, {.before = a});
  table().set_paused(b, true);
  EXPECT_THAT(ids(table().active(nullptr, 9)), ElementsAre(c, d, a, b));
  const Page some = table().active(nullptr, 3);
  EXPECT_THAT(ids(some), ElementsAre(c, d, a));
  EXPECT_TRUE(some.has_more);
  const std::string anna = "anna";
  EXPECT_THAT(ids(table().active(&anna, 9)), ElementsAre(c, d, a));
  table().wish(a, Wish::cancel, std::nullopt);
  EXPECT_THAT(ids(table().active(&anna, 9)), ElementsAre(c, d));
}

TEST_P(NewJobs, MoveWithinTheirPriority) {
  const std::string a = added().id, b = added().id, c = added().id;
  EXPECT_THAT(line(), ElementsAre(a, b, c));
  table().change(c, {.before = a});
  EXPECT_THAT(line(), ElementsAre(c, a, b));
  table().change(b, {.before = a});
  EXPECT_THAT(line(), ElementsAre(c, b, a));
  table().change(b, {.before = a});  // is there already
  EXPECT_THAT(line(), ElementsAre(c, b, a));
  table().change(b, {.before = b});
  EXPECT_THAT(line(), ElementsAre(c, b, a));
  table().change(c, {.before = ""});
  EXPECT_THAT(line(), ElementsAre(b, a, c));
  table().change(c, {.priority = 2});
  EXPECT_THAT(line(), ElementsAre(c, b, a));
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { table().change(a, {.before = c}); }),
              HasSubstr("`before`"));
  EXPECT_THAT(message_of(ErrorCode::not_found, [&] { table().change(a, {.before = "video_1"}); }),
              HasSubstr("`before`"));
  table().change(a, {.priority = 2, .before = c});  // both at once
  EXPECT_THAT(line(), ElementsAre(a, c, b));
  const std::string d = added().id;
  EXPECT_THAT(line(), ElementsAre(a, c, b, d));
}

// Each move halves the room between two neighbours, until their places are numbered anew.
TEST_P(NewJobs, MoveAsOftenAsAnybodyLikes) {
  const std::string a = added().id;
  std::string b = added().id, c = added().id;
  for (int i = 0; i < 300; ++i) {
    table().change(c, {.before = b});
    std::swap(b, c);
    ASSERT_THAT(line(), ElementsAre(a, b, c)) << i;
  }
}

TEST_P(NewJobs, ChangeWhileTheyWait) {
  const JobRow job = added();
  const JobRow changed = table()
                             .change(job.id, {.model = "m",
                                              .needs = "m+lora",
                                              .request = "{\"r\":1}",
                                              .settings = "{\"s\":2}",
                                              .facts = "{\"f\":3}",
                                              .priority = 4,
                                              .planned_seconds = 99})
                             .value();
  for (const JobRow& row : {changed, table().find(job.id).value()}) {
    EXPECT_EQ(row.model, "m");
    EXPECT_EQ(row.needs, "m+lora");
    EXPECT_EQ(row.request, "{\"r\":1}");
    EXPECT_EQ(row.settings, "{\"s\":2}");
    EXPECT_EQ(row.facts, "{\"f\":3}");
    EXPECT_EQ(row.priority, 4);
    EXPECT_EQ(row.planned_seconds, 99);
    EXPECT_EQ(row.place, job.place);
  }
  table().change(job.id, {.request = "{}"});
  EXPECT_EQ(table().find(job.id)->settings, "{\"s\":2}");
  table().claim(job.id, "w");
  EXPECT_FALSE(table().change(job.id, {.priority = 1}).has_value());
  EXPECT_FALSE(table().change("video_0", {.priority = 1}).has_value());
}

TEST_P(NewJobs, ChangeOnlyFromWhatWasExpected) {
  const JobRow job = added();
  std::string seen;
  table().change(job.id, {.request = "{}", .expect = [&](const JobRow& row) { seen = row.request; }});
  EXPECT_EQ(seen, job.request);
  const auto refuses = [](const JobRow& row) { fail(ErrorCode::invalid_argument, "it is {}", row.request); };
  const Change change{.model = "m", .request = "{\"r\":1}", .before = "", .expect = refuses};
  EXPECT_EQ(message_of(ErrorCode::invalid_argument, [&] { table().change(job.id, change); }), "it is {}");
  const JobRow row = table().find(job.id).value();
  EXPECT_EQ(row.model, job.model);
  EXPECT_EQ(row.request, "{}");
  EXPECT_EQ(row.place, job.place);
}

TEST_P(NewJobs, WaitForOthersUntilTheyAreReleased) {
  JobRow job = a_job();
  job.awaits = joined_ids({added().id, added().id});
  const std::string id = added(job).id;
  EXPECT_EQ(table().find(id)->awaits, job.awaits);
  EXPECT_EQ(table().waiting().back().awaits, job.awaits);
  EXPECT_FALSE(table().claim(id, "w").has_value());
  EXPECT_TRUE(table().change(id, {.priority = 1}).has_value());
  EXPECT_FALSE(table().claim(id, "w").has_value()) << "another change releases nothing";
  EXPECT_EQ(table().change(id, {.awaits = ""})->awaits, "");
  EXPECT_TRUE(table().claim(id, "w").has_value());
}

TEST_P(NewJobs, FailBeforeTheyAreBegun) {
  const std::string id = added().id;
  const Webhook message{.id = "msg_1", .job = id, .type = "video.failed", .body = "{}"};
  const JobRow row = table().fail_queued(id, {"source_failed", "it was removed"}, message).value();
  for (const JobRow& one : {row, table().find(id).value()}) {
    EXPECT_EQ(one.status, Status::failed);
    EXPECT_EQ(one.error.code, "source_failed");
    EXPECT_EQ(one.error.message, "it was removed");
    EXPECT_EQ(one.ended_ms, now_ms_);
    EXPECT_EQ(one.expires_ms, now_ms_ + 5000);
  }
  EXPECT_EQ(table().due_webhooks(now_ms_ + 1, 5).size(), 1u);
  EXPECT_FALSE(table().fail_queued(id, {"source_failed", "again"}, std::nullopt).has_value());
  EXPECT_FALSE(table().fail_queued(new_job_id(), {"source_failed", "gone"}, std::nullopt).has_value());
  const std::string begun = added().id;
  table().claim(begun, "w");
  EXPECT_FALSE(table().fail_queued(begun, {"source_failed", "late"}, std::nullopt).has_value());
}

TEST_P(NewJobs, AreRemovedWithAllThatIsTheirs) {
  const JobRow job = added();
  EXPECT_TRUE(table().remove(job.id));
  EXPECT_FALSE(table().remove(job.id));
  EXPECT_FALSE(table().find(job.id).has_value());
  table_.reset();
  EXPECT_EQ(place_->number("SELECT (SELECT count(*) FROM job_texts) + (SELECT count(*) FROM idempotency)"),
            0);
}

}  // namespace
}  // namespace tachy::queue
