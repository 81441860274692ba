#include "workers/placement.h"

#include <fmt/format.h>

#include <algorithm>

namespace tachy::workers {
namespace {

constexpr double kLeaveSeconds = 1;

// Takes "@expert" and ":strength" off a line of needs; a LoRA's own name may have both signs.
std::string lora_of(std::string line) {
  for (const std::string_view expert : {"@high", "@low", "@both"})
    if (line.ends_with(expert)) line.erase(line.size() - expert.size());
  const size_t colon = line.rfind(':');
  if (colon != line.npos && line.find_first_not_of("0123456789.+-e", colon + 1) == line.npos)
    line.erase(colon);
  return line;
}

// A job's `needs` are the model's name and a line "NAME:strength@expert" for each LoRA.
std::vector<std::string> loras_of(const std::string& needs) {
  std::vector<std::string> names;
  for (size_t at = needs.find('\n'); at != needs.npos;) {
    const size_t end = needs.find('\n', at + 1);
    names.push_back(lora_of(needs.substr(at + 1, end == needs.npos ? end : end - at - 1)));
    at = end;
  }
  return names;
}

bool has(const std::vector<std::string>& list, const std::string& what) {
  return std::ranges::find(list, what) != list.end();
}

bool is_free(const HostAbout& about) { return about.running < about.at_once && !about.full; }

bool can_make(const Host& host, const queue::WaitingJob& job) {
  return host.about.takes_jobs() && lacks(host.about, job).empty();
}

std::string named(const queue::WaitingJob& job) { return "`" + job.model + "`"; }

}  // namespace

std::string lacks(const HostAbout& host, const queue::WaitingJob& job) {
  if (job.needs.empty()) return "";  // videos that are joined
  if (!has(host.models, job.model)) return "the model " + named(job);
  for (const std::string& lora : loras_of(job.needs))
    if (!has(host.loras, lora)) return "the LoRA `" + lora + "`";
  return "";
}

Placement place(const queue::WaitingJob& job, const Host& self, std::span<const Host> hosts,
                double waited_seconds) {
  if (const std::string missing = lacks(self.about, job); !missing.empty())
    return {false, fmt::format("{} has not got {}", self.row.name, missing)};
  const bool begun = job.attempts > 0 && !job.files.empty();
  if (begun && job.files == self.row.files) return {true, "it goes on from its state, which is here"};
  int able = 1;
  const Host* loaded = nullptr;
  for (const Host& host : hosts) {
    if (host.row.name == self.row.name || !can_make(host, job)) continue;
    if (begun && host.row.files == job.files)
      return {false, fmt::format("its state is on {}, which lives", host.row.name)};
    ++able;
    if (!loaded && is_free(host.about) && has(host.about.loaded, job.needs)) loaded = &host;
  }
  if (begun) return {true, "the host that had begun it is gone, so it is made again"};
  if (job.needs.empty()) return {true, "this host was free"};
  if (has(self.about.loaded, job.needs)) return {true, fmt::format("{} was in memory here", named(job))};
  if (able == 1) return {true, fmt::format("no other host has {}", named(job))};
  if (loaded && waited_seconds < kLeaveSeconds)
    return {false, fmt::format("{} has {} in memory and is free", loaded->row.name, named(job))};
  return {true, fmt::format("this host was free, and no other free one had {} in memory", named(job))};
}

std::string why_waiting(const queue::WaitingJob& job, std::span<const Host> hosts, int64_t position) {
  std::string missing;
  bool workers = false, full = false;
  for (const Host& host : hosts) {
    if (!host.about.takes_jobs()) continue;
    workers = true;
    const std::string one = lacks(host.about, job);
    if (one.empty() && host.about.full) {
      full = true;
      continue;
    }
    if (one.empty()) {
      if (position <= 0) return "it is the next one, as soon as a host is free";
      return fmt::format("it waits for its turn: {} before it", position);
    }
    if (missing.empty()) missing = one;
  }
  if (full) return "the disk for the videos is full: it begins as soon as there is room";
  if (!workers) return "no worker is there";
  return fmt::format("no worker that is there has {}", missing);
}

std::string larger_host(const queue::WaitingJob& job, const Host& self, std::span<const Host> hosts) {
  for (const Host& host : hosts)
    if (host.row.name != self.row.name && can_make(host, job) &&
        host.about.memory_bytes > self.about.memory_bytes)
      return host.row.name;
  return "";
}

}  // namespace tachy::workers
