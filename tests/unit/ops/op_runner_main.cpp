// The op runner from the shell: what a failure's line asks for, and timings.
//   op_runner [--op op:case:implementation] [--seed n] [--threads n] [--real] [--perf]
// --perf times the real cases (and only times) against a plain copy of 64 MB; the exit status is 1 when a
// check failed.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "inspect/op_runner.h"

namespace {

double copy_gb_per_s() {
  const size_t bytes = 64 << 20;
  const tachy::Buffer from(bytes), to(bytes);
  std::memset(from.data(), 1, bytes);
  std::vector<double> seconds;
  for (int i = 0; i < 11; ++i) {
    const auto start = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return 2e-9 * static_cast<double>(bytes) / seconds[5];
}

int run(int argc, char** argv) {
  tachy::OpRunnerOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&] {
      tachy::require(i + 1 < argc, "{}: expected a value, got none", flag);
      return std::string(argv[++i]);
    };
    if (flag == "--op")
      options.filter = value();
    else if (flag == "--seed")
      options.seed = std::stoull(value());
    else if (flag == "--threads")
      options.threads = std::stoi(value());
    else if (flag == "--real")
      options.real = true;
    else if (flag == "--perf")
      options.perf = options.real = true;
    else
      tachy::fail(tachy::ErrorCode::invalid_argument, "unknown option '{}'", flag);
  }
  if (options.perf) {
    options.ref = options.bitwise = options.canary = options.tiny = options.odd = false;
    fmt::print("copy of 64 MB, one thread: {:.2f} GB/s read and written\n", copy_gb_per_s());
  }
  bool ok = true;
  for (const auto& r : tachy::run_ops(options)) {
    fmt::print("{:7} {:8} {:52} {}\n", r.skipped ? "skip" : r.ok ? "ok" : "FAILED", r.mode, r.id(), r.detail);
    if (!r.ok) fmt::print("        {}\n", r.repeat());
    ok = ok && r.ok;
  }
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "op_runner: {}\n", error.what());
    return 2;
  }
}
