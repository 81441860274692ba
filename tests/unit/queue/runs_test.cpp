// Tests the life of a job in the table: claims, wishes, interruptions, ends, what is outdated, messages and
// presets.
#include <atomic>
#include <functional>
#include <thread>

#include "table_case.h"

namespace tachy::queue {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Webhook about(const std::string& job, const std::string& id = "msg_1") {
  return {.id = id, .job = job, .type = "video.completed", .body = "{}", .due_ms = 10};
}

class Runs : public Table {
 protected:
  JobRow claimed() { return table().claim(added().id, "w").value(); }
};
TACHY_FOR_BOTH_TABLES(Runs);

TEST_P(Runs, BelongToOneWorker) {
  const std::string id = added().id;
  const JobRow row = table().claim(id, "w").value();
  EXPECT_EQ(row.status, Status::in_progress);
  EXPECT_EQ(row.worker, "w");
  EXPECT_EQ(row.attempts, 1);
  EXPECT_EQ(row.started_ms, now_ms_);
  EXPECT_FALSE(table().claim(id, "v").has_value());
  EXPECT_FALSE(table().claim(id, "w").has_value());
  EXPECT_FALSE(table().claim("video_0", "w").has_value());
  EXPECT_THAT(line(), IsEmpty());
  JobRow ended = row;
  ended.status = Status::completed;
  EXPECT_FALSE(table().end(ended, "v", about(id)));
  EXPECT_FALSE(table().give_back(id, "v", false));
  table().progress(id, "v", 50);
  EXPECT_EQ(table().find(id)->progress, 0);
  EXPECT_THAT(table().due_webhooks(100, 10), IsEmpty());
  EXPECT_EQ(table().counts().running, 1);
}

TEST_P(Runs, MakeProgressThatNeverGoesBack) {
  const std::string id = claimed().id;
  for (const auto& [given, seen] : {std::pair{5, 5}, {3, 5}, {40, 40}, {40, 40}, {300, 100}, {-7, 100}}) {
    table().progress(id, "w", given);
    EXPECT_EQ(table().find(id)->progress, seen);
  }
}

TEST_P(Runs, EndWithTheirMessageOrNotAtAll) {
  JobRow row = claimed();
  row.status = Status::in_progress;
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { table().end(row, "w", std::nullopt); }),
              HasSubstr("completed or failed"));
  row.status = Status::completed, row.facts = "{\"frames\":81}", row.bytes = 123,
  row.expires_ms = now_ms_ + 9;
  now_ms_ += 60'000;
  ASSERT_TRUE(table().end(row, "w", about(row.id)));
  const JobRow found = table().find(row.id).value();
  EXPECT_EQ(found.status, Status::completed);
  EXPECT_EQ(found.progress, 100);
  EXPECT_EQ(found.facts, row.facts);
  EXPECT_EQ(found.bytes, 123u);
  EXPECT_EQ(found.ended_ms, now_ms_);
  EXPECT_EQ(found.expires_ms, row.expires_ms);
  EXPECT_EQ(found.settings, row.settings);
  EXPECT_EQ(table().due_webhooks(100, 10).size(), 1u);
  EXPECT_FALSE(table().end(row, "w", about(row.id, "msg_2")));  // it has ended
  EXPECT_EQ(table().due_webhooks(100, 10).size(), 1u);
  // If the message cannot be kept, the job has not ended.
  JobRow other = claimed();
  other.status = Status::failed, other.error = {"out_of_memory", "too large"};
  EXPECT_THAT(message_of(ErrorCode::io, [&] { table().end(other, "w", about(other.id)); }),
              HasSubstr(unique()));
  EXPECT_EQ(table().find(other.id)->status, Status::in_progress);
  table().progress(other.id, "w", 30);
  ASSERT_TRUE(table().end(other, "w", about(other.id, "msg_3")));
  EXPECT_EQ(table().find(other.id)->error.code, "out_of_memory");
  EXPECT_EQ(table().find(other.id)->error.message, "too large");
  EXPECT_EQ(table().find(other.id)->progress, 30);
  const Counts counts = table().counts();
  EXPECT_EQ(counts.completed, 1);
  EXPECT_EQ(counts.failed, 1);
  EXPECT_EQ(counts.running + counts.queued, 0);
}

TEST_P(Runs, GoBackIntoTheQueueAtTheirPlace) {
  const std::string a = added().id, b = added().id;
  table().claim(a, "w");
  table().progress(a, "w", 44);
  EXPECT_TRUE(table().give_back(a, "w", false));
  EXPECT_THAT(line(), ElementsAre(a, b));
  EXPECT_FALSE(table().give_back(a, "w", false));
  now_ms_ += 1000;
  const JobRow again = table().claim(a, "w").value();
  EXPECT_EQ(again.attempts, 2);
  EXPECT_EQ(again.progress, 44);
  EXPECT_EQ(again.started_ms, now_ms_ - 1000);
  EXPECT_TRUE(table().give_back(a, "w", true));
  EXPECT_TRUE(table().find(a)->paused);
  EXPECT_FALSE(table().claim(a, "w").has_value());
  EXPECT_FALSE(table().set_paused(a, false)->paused);
  EXPECT_TRUE(table().claim(a, "w").has_value());
  EXPECT_FALSE(table().set_paused(a, true).has_value());  // it runs: that is a wish
}

TEST_P(Runs, AreAskedToStop) {
  const std::string id = claimed().id;
  const auto wished = [&](Wish wish) { return table().wish(id, wish, about(id))->wish; };
  EXPECT_EQ(wished(Wish::pause), Wish::pause);
  EXPECT_EQ(wished(Wish::none), Wish::none);
  EXPECT_EQ(wished(Wish::cancel_keeping_frames), Wish::cancel_keeping_frames);
  EXPECT_EQ(wished(Wish::pause), Wish::cancel_keeping_frames);  // nothing takes a cancel back
  EXPECT_EQ(wished(Wish::cancel), Wish::cancel);
  EXPECT_EQ(wished(Wish::cancel_keeping_frames), Wish::cancel);
  EXPECT_EQ(table().find(id)->wish, Wish::cancel);
  EXPECT_THAT(table().due_webhooks(100, 10), IsEmpty());  // it has not ended yet
  EXPECT_FALSE(table().give_back(id, "w", false));        // so that the wish is not lost
  EXPECT_EQ(table().find(id)->status, Status::in_progress);
  EXPECT_FALSE(table().wish("video_0", Wish::cancel, std::nullopt).has_value());
}

TEST_P(Runs, ArePausedEvenIfTheyAreInterruptedAtThatMoment) {
  const std::string id = claimed().id;
  table().wish(id, Wish::pause, std::nullopt);
  EXPECT_TRUE(table().give_back(id, "w", false));
  EXPECT_TRUE(table().find(id)->paused);
  EXPECT_EQ(table().find(id)->wish, Wish::none);
}

TEST_P(Runs, ThatWaitAreCancelledAtOnce) {
  const std::string id = added().id;
  EXPECT_TRUE(table().wish(id, Wish::pause, std::nullopt)->paused);
  EXPECT_FALSE(table().wish(id, Wish::none, std::nullopt)->paused);
  table().wish(id, Wish::pause, std::nullopt);
  const JobRow row = table().wish(id, Wish::cancel_keeping_frames, about(id)).value();
  for (const JobRow& seen : {row, table().find(id).value()}) {
    EXPECT_EQ(seen.status, Status::failed);
    EXPECT_EQ(seen.error.code, "cancelled");
    EXPECT_EQ(seen.ended_ms, now_ms_);
    EXPECT_EQ(seen.expires_ms, now_ms_ + 5000);
    EXPECT_FALSE(seen.paused);
  }
  EXPECT_EQ(table().due_webhooks(100, 10).size(), 1u);
  now_ms_ += 1;
  EXPECT_EQ(table().wish(id, Wish::cancel, about(id, "msg_2"))->ended_ms, row.ended_ms);  // unchanged
  EXPECT_EQ(table().due_webhooks(100, 10).size(), 1u);
}

TEST_P(Runs, AreHandedOutAgainWithTheWishToKeepTheirFrames) {
  const std::string id = claimed().id;
  table().wish(id, Wish::cancel_keeping_frames, std::nullopt);
  open();
  EXPECT_EQ(table().recover("w").front().wish, Wish::cancel_keeping_frames);
  EXPECT_EQ(table().wish(id, Wish::cancel_keeping_frames, std::nullopt)->status, Status::queued)
      << "it is known";
  EXPECT_EQ(table().claim(id, "w")->wish, Wish::cancel_keeping_frames);
}

TEST_P(Runs, OfADeadWorkerComeBack) {
  const std::string a = claimed().id, b = claimed().id, c = claimed().id, d = added().id, e = added().id;
  table().wish(b, Wish::cancel, std::nullopt);
  table().wish(c, Wish::pause, std::nullopt);
  table().claim(e, "another");
  open();
  const std::vector<JobRow> rows = table().recover("w");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].id, a);
  EXPECT_EQ(rows[1].id, b);
  EXPECT_EQ(rows[2].id, c);
  for (const JobRow& row : rows) EXPECT_EQ(table().find(row.id)->status, Status::queued);
  EXPECT_EQ(rows[1].wish, Wish::cancel);
  EXPECT_EQ(table().find(b)->wish, Wish::cancel);
  EXPECT_TRUE(rows[2].paused);
  EXPECT_TRUE(table().find(c)->paused);
  EXPECT_EQ(table().find(c)->wish, Wish::none);
  EXPECT_EQ(table().find(a)->attempts, 1);
  EXPECT_EQ(table().find(e)->status, Status::in_progress);
  EXPECT_THAT(line(), ElementsAre(a, b, c, d));
  EXPECT_EQ(table().wish(b, Wish::cancel, about(b))->status, Status::failed);
  EXPECT_THAT(table().recover("w"), IsEmpty());
}

TEST_P(Runs, ThatEndedLongAgoAreOutdated) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) {
    ids.push_back(added().id);
    finish(ids.back(), i == 2 ? Status::failed : Status::completed, 100);
    now_ms_ += 1000;
  }
  added(), claimed();
  EXPECT_THAT(table().outdated(now_ms_, 0), IsEmpty());
  EXPECT_THAT(table().outdated(now_ms_, 500), IsEmpty());
  EXPECT_THAT(table().outdated(now_ms_, 499), ElementsAre(ids[0]));
  EXPECT_THAT(table().outdated(now_ms_, 250), ElementsAre(ids[0], ids[1], ids[2]));
  JobRow row = table().claim(added().id, "w").value();
  row.status = Status::completed, row.bytes = 1000, row.expires_ms = now_ms_ + 10;
  table().end(row, "w", std::nullopt);
  EXPECT_THAT(table().outdated(now_ms_ + 9, 0), IsEmpty());
  EXPECT_THAT(table().outdated(now_ms_ + 10, 0), ElementsAre(row.id));
  EXPECT_THAT(table().outdated(now_ms_ + 10, 400),
              ElementsAre(ids[0], row.id));  // what has expired takes no room
}

// However the sum is kept, it is right where something is removed for it.
TEST_P(Runs, AreOutdatedByWhatAllTakeAtThatTime) {
  std::vector<std::string> ids;
  for (int i = 0; i < 12; ++i) {
    ids.push_back(added().id);
    finish(ids.back(), Status::completed, 100);
    now_ms_ += 25'000;
    if (i % 4 == 3) table().remove(std::exchange(ids[ids.size() - 2], ""));
    std::erase(ids, "");
    const auto outdated = table().outdated(now_ms_, 650);
    const size_t over = ids.size() > 6 ? ids.size() - 6 : 0;
    EXPECT_THAT(outdated,
                testing::ElementsAreArray(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(over)))
        << i;
    if (i > 9) continue;  // those stay for another time
    for (const std::string& id : outdated) table().remove(id), std::erase(ids, id);
  }
}

TEST_P(Runs, ChargeTheirOwnerOnce) {
  const JobRow job = added("anna", 100);
  table().claim(job.id, "w");
  EXPECT_NEAR(table().used_seconds()["anna"], 100, 1e-9);
  table().give_back(job.id, "w", false);
  JobRow row = table().claim(job.id, "w").value();
  EXPECT_NEAR(table().used_seconds()["anna"], 100, 1e-9);
  now_ms_ += 1'800'000;  // half is forgotten
  EXPECT_NEAR(table().used_seconds()["anna"], 50, 1e-9);
  table().progress(job.id, "w", 80);
  row.status = Status::failed, row.error.code = "cancelled";
  table().end(row, "w", std::nullopt);  // a fifth was not used
  EXPECT_NEAR(table().used_seconds()["anna"], 30, 1e-9);
  const JobRow whole = added("anna", 20);
  finish(whole.id);
  EXPECT_NEAR(table().used_seconds()["anna"], 50, 1e-9);
  const JobRow never = added("bert", 20);
  table().wish(never.id, Wish::cancel, std::nullopt);
  EXPECT_EQ(table().used_seconds().count("bert"), 0u);
}

// A claim and the charge for it are one change, and so are an end and what it gives back.
TEST_P(Runs, AreChargedOrNotClaimed) {
  const JobRow job = added("anna", 100);
  const auto refusing = [&](auto&& body) {
    refuse("shares");
    EXPECT_THAT(message_of(ErrorCode::io, body), HasSubstr("no"));
    refuse_no_more("shares");
  };
  refusing([&] { table().claim(job.id, "w"); });
  EXPECT_EQ(table().find(job.id)->status, Status::queued);
  JobRow row = table().claim(job.id, "w").value();
  EXPECT_EQ(row.attempts, 1);
  row.status = Status::failed;
  refusing([&] { table().end(row, "w", about(row.id)); });
  EXPECT_EQ(table().find(job.id)->status, Status::in_progress);
  EXPECT_THAT(table().due_webhooks(100, 10), IsEmpty());
  EXPECT_TRUE(table().end(row, "w", about(row.id)));
  EXPECT_NEAR(table().used_seconds()["anna"], 0, 1e-9);
}

TEST_P(Runs, TellOfChangesByTheVersion) {
  uint64_t last = table().version();
  const auto moved = [&] { return std::exchange(last, table().version()) != last; };
  const std::string id = added().id;
  EXPECT_TRUE(moved());
  table().find(id), table().waiting(), table().counts(), table().used_seconds();
  EXPECT_FALSE(moved());
  table().claim(id, "w");
  EXPECT_TRUE(moved());
  table().progress(id, "w", 3);
  EXPECT_FALSE(moved());
  table().give_back(id, "w", false);
  EXPECT_TRUE(moved());
}

TEST_P(Runs, MessagesWaitUntilTheyAreSent) {
  for (const char* id : {"msg_b", "msg_a"}) {
    JobRow row = claimed();
    row.status = Status::completed;
    table().end(row, "w", about(row.id, id));
  }
  EXPECT_THAT(table().due_webhooks(9, 10), IsEmpty());
  ASSERT_EQ(table().due_webhooks(10, 1).size(), 1u);
  EXPECT_EQ(table().due_webhooks(10, 1)[0].id, "msg_a");
  table().webhook_later("msg_a", 500);
  open();
  ASSERT_EQ(table().due_webhooks(499, 10).size(), 1u);
  const Webhook later = table().due_webhooks(500, 10)[1];
  EXPECT_EQ(later.id, "msg_a");
  EXPECT_EQ(later.attempts, 1);
  EXPECT_EQ(later.due_ms, 500);
  EXPECT_EQ(later.type, "video.completed");
  EXPECT_EQ(later.body, "{}");
  table().remove(later.job);  // the message about a job outlives it
  table().webhook_sent("msg_b");
  EXPECT_EQ(table().due_webhooks(500, 10).size(), 1u);
}

TEST_P(Runs, PresetsAreTheirOwners) {
  table().save_preset({.name = "b", .owner = "anna", .fields = "{}"}, 2);
  table().save_preset({.name = "a", .owner = "anna", .fields = "{}"}, 2);
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] { table().save_preset({.name = "c", .owner = "anna", .fields = "{}"}, 2); }),
              HasSubstr("2 presets"));
  table().save_preset({.name = "b", .owner = "anna", .fields = "{\"steps\":4}"}, 2);  // replaces
  table().save_preset({.name = "b", .owner = "bert", .fields = "{}"}, 2);
  const auto presets = table().presets("anna");
  ASSERT_EQ(presets.size(), 2u);
  EXPECT_EQ(presets[0].name, "a");
  EXPECT_EQ(presets[1].fields, "{\"steps\":4}");
  EXPECT_TRUE(table().remove_preset("anna", "b"));
  EXPECT_FALSE(table().remove_preset("anna", "b"));
  EXPECT_EQ(table().presets("bert").size(), 1u);
}

// A row that is known is the one that find() returns, whatever has been done to it.
TEST_P(Runs, WhatIsKnownIsNeverOutdated) {
  const std::string id = added().id, other = added().id;
  EXPECT_EQ(table().known(id), nullptr) << "nobody has read it";
  const auto kept = [&](const std::string& of) {
    table().find(of);
    return table().known(of);
  };
  const std::function<void()> changes[] = {
      [&] { table().set_paused(id, true); },
      [&] { table().set_paused(id, false); },
      [&] { table().change(id, {.facts = "{\"seed\":8}"}); },
      [&] { table().claim(id, "w"); },
      [&] { table().progress(id, "w", 40); },
      [&] { table().wish(id, Wish::pause, std::nullopt); },
      [&] { table().recover("w"); },
      [&] { table().set_paused(id, false), table().claim(id, "w"), table().give_back(id, "w", false); },
      [&] { finish(id); },
  };
  ASSERT_NE(kept(other), nullptr);
  for (const auto& change : changes) {
    const auto before = kept(id);
    ASSERT_NE(before, nullptr);
    change();
    EXPECT_EQ(table().known(id), nullptr) << to_string(before->status);
    const JobRow now = table().find(id).value();
    EXPECT_TRUE(now.status != before->status || now.paused != before->paused || now.wish != before->wish ||
                now.progress != before->progress || now.facts != before->facts ||
                now.attempts != before->attempts);
  }
  EXPECT_NE(kept(id), nullptr);
  table().remove(id);
  EXPECT_EQ(table().known(id), nullptr);
  EXPECT_EQ(kept(id), nullptr);
}

TEST_P(Runs, ARowThatWasReadWhileItChangedIsNotKept) {
  const std::string id = claimed().id;
  std::atomic<bool> reading = true;
  std::thread reader([&] {
    while (reading) table().find(id);
  });
  for (int percent = 1; percent <= 100; ++percent) {
    table().progress(id, "w", percent);
    const auto known = table().known(id);
    if (known) EXPECT_EQ(known->progress, percent);
  }
  reading = false;
  reader.join();
}

}  // namespace
}  // namespace tachy::queue
