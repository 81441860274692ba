// Loads a table of jobs in PostgreSQL as many hosts would, one kind of call at a time. postgres_load.py runs it beside
// a database of its own and reads what the database spent.
//   postgres_load KIND COUNT THREADS [QUEUED]   the address is in TACHY_DATABASE; QUEUED jobs wait all the time
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/random_bytes.h"
#include "queue/job_folder.h"
#include "queue/postgres_table.h"

namespace tachy::queue {
namespace {

using Clock = std::chrono::steady_clock;

JobRow a_job(const std::string& owner) {
  JobRow job;
  job.id = new_job_id(), job.owner = owner, job.model = job.needs = "wan";
  job.request = R"({"prompt":")" + std::string(300, 'x') + R"("})", job.settings = std::string(1500, 'y'),
  job.facts = "{}";
  job.planned_seconds = 60;
  return job;
}

// A job's whole life: it is made, claimed, makes ten steps and ends, and its client asks six times.
void live(PostgresTable& table, int thread, int number) {
  const std::string worker = "w" + std::to_string(thread), owner = "key" + std::to_string(number % 20);
  const std::string id = table.insert(a_job(owner), random_hex(16), "print", 100'000, 100'000).row.id;
  JobRow row = table.claim(id, worker).value();
  for (int step = 1; step <= 10; ++step) {
    table.progress(id, worker, step * 9);
    if (step % 2) table.find(id);
  }
  table.find(id);
  row.status = Status::completed, row.facts = R"({"size":"832x480"})";
  table.end(row, worker, std::nullopt);
}

int run(int argc, char** argv) {
  const std::string kind = argv[1];
  const int count = std::atoi(argv[2]), threads = std::atoi(argv[3]),
            queued = argc > 4 ? std::atoi(argv[4]) : 0;
  PostgresTable table(std::getenv("TACHY_DATABASE"));
  std::vector<std::string> ids;
  for (int64_t there = table.counts().queued; there < queued; ++there)
    table.insert(a_job("filler"), "", "", 0, 0);
  for (const WaitingJob& job : table.waiting()) ids.push_back(job.id);
  for (int i = 0; i < threads; ++i)
    if (!table.heartbeat("w" + std::to_string(i))) table.enlist("w" + std::to_string(i));
  const std::map<std::string, std::function<void(int, int)>> kinds = {
      {"life", [&](int thread, int i) { live(table, thread, i); }},
      {"insert",
       [&](int, int i) { table.insert(a_job("key" + std::to_string(i % 20)), random_hex(16), "p", 0, 0); }},
      {"beat", [&](int thread, int) { table.heartbeat("w" + std::to_string(thread)); }},
      {"lost", [&](int, int) { table.recover_lost(); }},
      {"look", [&](int, int) { table.waiting(), table.used_seconds(); }},
      {"poll", [&](int, int i) { table.find(ids.at(static_cast<size_t>(i) % ids.size())); }},
      {"progress", [&](int, int i) { table.progress(ids.at(0), "w0", i % 100); }}};
  std::vector<std::vector<double>> took(static_cast<size_t>(threads));
  fmt::print("begin\n");
  std::fflush(stdout);
  std::getchar();  // the script has read the clocks
  const auto begin = Clock::now();
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      for (int i = t; i < count; i += threads) {
        const auto from = Clock::now();
        kinds.at(kind)(t, i);
        took[static_cast<size_t>(t)].push_back(std::chrono::duration<double>(Clock::now() - from).count());
      }
    });
  for (auto& worker : workers) worker.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::vector<double> all;
  for (const auto& some : took) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  fmt::print("{{\"seconds\": {}, \"median_ms\": {}, \"p99_ms\": {}}}\n", seconds, all[all.size() / 2] * 1e3,
             all[all.size() * 99 / 100] * 1e3);
  std::fflush(stdout);
  std::getchar();
  return 0;
}

}  // namespace
}  // namespace tachy::queue

int main(int argc, char** argv) { return argc < 4 ? 2 : tachy::queue::run(argc, argv); }
