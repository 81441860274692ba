// Tests the events of jobs: their numbers, late listeners, kills, disks that are full, and how much is kept.
#include "queue/event_book.h"

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "small_disk.h"
#include "table_case.h"

namespace tachy::queue {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class Events : public Folder {
 protected:
  Events() { job_ = new_folder(); }
  std::string new_folder() {
    const std::string id = new_job_id();
    fs::create_directories(JobFolder(folder_, id).path);
    return id;
  }
  fs::path lines() const { return JobFolder(folder_, job_).events(); }
  static std::vector<int64_t> numbers(const std::vector<Event>& events) {
    std::vector<int64_t> numbers;
    for (const Event& event : events) numbers.push_back(event.number);
    return numbers;
  }
  std::string job_;
};

TEST_F(Events, AreNumberedFromOne) {
  EventBook book(folder_);
  EXPECT_THAT(book.since(job_, 0), IsEmpty());
  book.add(job_, "queued", {{"position", 3}});
  book.add(job_, "progress", {{"stage", "denoise \"1\"\n"}, {"done", 1}});
  const auto all = book.since(job_, 0);
  ASSERT_THAT(numbers(all), ElementsAre(1, 2));
  EXPECT_EQ(all[0].type, "queued");
  EXPECT_EQ(all[0].data, R"({"position":3})");
  EXPECT_EQ(all[1].data, R"({"done":1,"stage":"denoise \"1\"\n"})");
  EXPECT_THAT(numbers(book.since(job_, 1)), ElementsAre(2));
  EXPECT_THAT(book.since(job_, 2), IsEmpty());
  EXPECT_THAT(book.since(job_, 99), IsEmpty());
  EXPECT_EQ(book.last(job_), 2);
  EXPECT_EQ(book.last("video_0"), 0);
  EXPECT_FALSE(book.ended(job_));
  book.add(job_, "done", nlohmann::json::object());
  EXPECT_TRUE(book.ended(job_));
  book.add(job_, "progress", nlohmann::json::object());  // comes too late
  EXPECT_THAT(numbers(book.since(job_, 0)), ElementsAre(1, 2, 3));
  EventBook again(folder_);
  EXPECT_EQ(again.since(job_, 1)[0].data, all[1].data);
  EXPECT_TRUE(again.ended(job_));
}

TEST_F(Events, AreAllThereForALateListener) {
  EventBook book(folder_);
  for (int i = 1; i <= 500; ++i) book.add(job_, "progress", {{"done", i}});
  const auto all = book.since(job_, 0);
  ASSERT_EQ(all.size(), 500u);
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(all[i].number, i + 1);
    ASSERT_EQ(all[i].data, fmt::format("{{\"done\":{}}}", i + 1));
  }
  for (const int from : {1, 100, 435, 436, 437, 499, 500})
    EXPECT_EQ(book.since(job_, from).size(), static_cast<size_t>(500 - from)) << from;
}

// Two hosts share the folder: each sees what the other adds, and no number comes twice.
TEST_F(Events, OfSeveralHostsAreOneList) {
  EventBook one(folder_, true), other(folder_, true);
  EXPECT_THAT(other.since(job_, 0), IsEmpty());
  one.add(job_, "queued", {{"position", 0}});
  EXPECT_THAT(numbers(other.since(job_, 0)), ElementsAre(1));
  const auto write = [&](EventBook& book) {
    for (int i = 0; i < 100; ++i) book.add(job_, "progress", {{"done", i}});
  };
  std::thread first([&] { write(one); }), second([&] { write(other); });
  first.join(), second.join();
  for (EventBook* book : {&one, &other}) {
    const auto all = book->since(job_, 0);
    ASSERT_EQ(all.size(), 201u);
    for (int i = 0; i < 201; ++i) ASSERT_EQ(all[i].number, i + 1);
  }
  other.add(job_, "done", nlohmann::json::object());
  EXPECT_TRUE(one.ended(job_));
}

TEST_F(Events, OfAnotherHostWakeWhoListens) {
  EventBook one(folder_, true), other(folder_, true);
  std::atomic<int> woken{0};
  auto handle = one.listen(job_, [&] { ++woken; });
  other.add(job_, "queued", {{"position", 0}});
  for (int i = 0; i < 300 && woken == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(woken, 1);
  handle.reset();
  other.add(job_, "progress", {{"done", 1}});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(woken, 1);
}

// A reader may look while another host is writing a line: it leaves the line alone and reads it later.
TEST_F(Events, ThatAreHalfWrittenByAnotherHostStay) {
  EventBook one(folder_, true), other(folder_, true);
  one.add(job_, "queued", {{"position", 0}});
  const std::string line = R"({"number":2,"type":"progress","data":{"done":1}})"
                           "\n";
  { std::ofstream(lines(), std::ios::app) << line.substr(0, 20); }
  EXPECT_THAT(numbers(other.since(job_, 0)), ElementsAre(1));
  { std::ofstream(lines(), std::ios::app) << line.substr(20); }
  EXPECT_THAT(numbers(other.since(job_, 0)), ElementsAre(1, 2));
  other.add(job_, "progress", {{"done", 2}});
  EXPECT_THAT(numbers(one.since(job_, 0)), ElementsAre(1, 2, 3));
}

TEST_F(Events, GoOnAfterATornLine) {
  {
    EventBook book(folder_);
    for (int i = 0; i < 3; ++i) book.add(job_, "progress", {{"done", i}});
  }
  std::string text;
  std::getline(std::ifstream(lines()), text, '\0');
  const size_t last = text.rfind('\n', text.size() - 2) + 1;
  // Every torn state of the last line, and what a power cut may leave in its place.
  for (size_t size = last; size <= text.size(); ++size)
    for (const std::string& more : {std::string(), std::string(5, '\0'), std::string("\0\0\n", 3)}) {
      std::ofstream(lines(), std::ios::binary) << text.substr(0, size) << more;
      const int64_t whole = size == text.size() ? 3 : 2;
      EventBook book(folder_);
      EXPECT_EQ(numbers(book.since(job_, 0)).size(), static_cast<size_t>(whole)) << size;
      book.add(job_, "preview", {{"url", "u"}});
      EXPECT_EQ(book.since(job_, whole).at(0).number, whole + 1);
      EventBook again(folder_);
      EXPECT_EQ(numbers(again.since(job_, 0)), numbers(book.since(job_, 0)));
      EXPECT_EQ(again.since(job_, whole).at(0).type, "preview");
    }
}

TEST_F(Events, AreNoDangerWhateverTheFileHas) {
  for (const char* text : {"", "\n", "[]\n", "{}\n", "{\"number\":\"1\",\"type\":1,\"data\":{}}\n", "7\nx",
                           "{\"number\":1,\"type\":\"queued\",\"data\":[]}\n"}) {
    std::ofstream(lines(), std::ios::binary) << text;
    EventBook book(folder_);
    EXPECT_THAT(book.since(job_, 0), IsEmpty()) << text;
    book.add(job_, "queued", nlohmann::json::object());
    EXPECT_EQ(EventBook(folder_).since(job_, 0).size(), 1u) << text;
  }
}

TEST_F(Events, WakeThoseWhoListen) {
  EventBook book(folder_);
  int first = 0, second = 0;
  auto one = book.listen(job_, [&] { ++first; });
  const auto two = book.listen(job_, [&] { ++second; });
  book.add(job_, "queued", nlohmann::json::object());
  book.add(new_folder(), "queued", nlohmann::json::object());
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
  one.reset();
  book.add(job_, "progress", nlohmann::json::object());
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
  fs::remove_all(JobFolder(folder_, job_).path);
  book.forget(job_);
  EXPECT_EQ(second, 3);
  EXPECT_TRUE(book.ended(job_));
  EXPECT_THAT(book.since(job_, 0), IsEmpty());
  book.add(job_, "progress", nlohmann::json::object());
  EXPECT_EQ(second, 3);
  EXPECT_FALSE(fs::exists(JobFolder(folder_, job_).path));
}

TEST_F(Events, ListenersMayLeaveWhileTheyAreWoken) {
  EventBook book(folder_);
  std::shared_ptr<void> handle;
  int woken = 0;
  handle = book.listen(job_, [&] { ++woken, handle.reset(); });
  book.add(job_, "queued", nlohmann::json::object());
  book.add(job_, "progress", nlohmann::json::object());
  EXPECT_EQ(woken, 1);
}

TEST_F(Events, ComeFromManyThreads) {
  EventBook book(folder_);
  std::atomic<int> woken = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const auto handle = book.listen(job_, [&] { ++woken; });
        book.add(job_, "progress", {{"done", i}});
        book.since(job_, i);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_GE(woken, 400);
  EXPECT_EQ(book.since(job_, 0).size(), 400u);
  EXPECT_EQ(EventBook(folder_).since(job_, 0).size(), 400u);
}

TEST_F(Events, OfMoreJobsThanAreKeptComeBackFromTheDisk) {
  EventBook book(folder_);
  int woken = 0;
  const auto handle = book.listen(job_, [&] { ++woken; });
  std::vector<std::string> jobs;
  for (int i = 0; i < 1000; ++i) {
    jobs.push_back(new_folder());
    book.add(jobs.back(), "queued", {{"position", i}});
  }
  for (int i = 0; i < 1000; ++i) {
    book.add(jobs[static_cast<size_t>(i)], "progress", {{"done", i}});
    ASSERT_THAT(numbers(book.since(jobs[static_cast<size_t>(i)], 0)), ElementsAre(1, 2));
  }
  book.add(job_, "queued", nlohmann::json::object());
  EXPECT_EQ(woken, 1);  // whoever listens keeps their job
}

TEST_F(Events, OfWhatIsNoJobAreNone) {
  EventBook book(folder_);
  fs::create_directories(folder_ / "outside");
  for (const char* id : {"", "../outside", "..", "a/b", "video_0"}) {
    book.add(id, "queued", nlohmann::json::object());
    EXPECT_TRUE(book.ended(id)) << id;
    book.listen(id, [] {});
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "outside"));
}

TEST_F(Events, ReachListenersThoughTheDiskIsFull) {
  const std::string said = in_child([&]() -> std::string {
    limit_files(200);
    EventBook book(folder_);
    for (int i = 0; i < 10; ++i) book.add(job_, "progress", {{"done", i}});
    return std::to_string(book.since(job_, 0).size());
  });
  EXPECT_EQ(said, "10");
  const size_t kept = EventBook(folder_).since(job_, 0).size();  // whole ones only
  EXPECT_GT(kept, 1u);
  EXPECT_LT(kept, 10u);
}

}  // namespace
}  // namespace tachy::queue
