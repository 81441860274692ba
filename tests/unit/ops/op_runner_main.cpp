// The op runner from the shell: what a failure's line asks for, and timings.
//   op_runner [--op op:case:implementation[,…]] [--seed n | --seeds a..b] [--threads n] [--real] [--perf]
//             [--device cuda|cuda:1 [--dtype f32|f16|bf16]] [--modes ref,bitwise,canary,capture]
//             [--kinds tiny,odd,real,video] [--isa avx2] [--summary] [--list] [--cases] [--random n [--of products]]
// --list prints the ops' names, --cases those of their cases. --op takes several filters, with commas between them, and runs one after the other.
// --seeds runs all of them in one process; with --summary it ends with the
// checks that came nearest to their bound. --max-mflop N leaves larger cases out, --without cudnn,cublaslt the
// implementations of these names. --share 2/5 runs the third of five equal shares of the cases, so that five
// processes run all of them.
// --random 1000: a thousand random shapes, drawn by --seed, in place of the stored cases: of attention, or by --of
// those of products (linear layers) or convolutions. To repeat one of them give the same options with its --op.
// --isa sse4, avx2 or avx512 runs as on a CPU that has no more, as TACHY_ISA does; bf16 in plain loops where
// it leaves no other way.
// --perf times the real cases, on a GPU the video ones too (and only times) against a plain copy of 64 MB;
// the exit status is 1 when a check failed.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "base/field.h"
#include "cpu/isa.h"
#include "cuda/gpu.h"
#include "inspect/op_runner.h"
#include "random_cases.h"

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

tachy::DType dtype_named(const std::string& name) {
  for (const tachy::DType dtype : {tachy::DType::f32, tachy::DType::f16, tachy::DType::bf16})
    if (name == tachy::dtype_name(dtype)) return dtype;
  tachy::fail(tachy::ErrorCode::invalid_argument, "--dtype: expected f32, f16 or bf16, got '{}'", name);
}

void limit_isa(const std::string& name) {
  const tachy::Isa limit = tachy::isa_named(name, "--isa");
  tachy::cpu::limit_isa(limit);
  if (limit < tachy::Isa::avx512) setenv("TACHY_BF16", "portable", 0);
}

uint64_t whole_number(const std::string& flag, const std::string& text) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  tachy::require(!text.empty() && error == std::errc() && end == text.data() + text.size(),
                 "{}: expected a whole number, got '{}'", flag, text);
  return seed;
}

// The worst over many seeds: the largest share of its bound that an implementation's error took in a case.
class Nearest {
 public:
  void add(const tachy::OpResult& r) {
    if (r.skipped || r.mode != "ref" || r.bound <= 0) return;
    Worst& worst = worst_[r.id()];
    if (const double share = r.error / r.bound; share >= worst.share) worst = {share, r.seed};
  }
  void print(size_t most) const {
    std::vector<std::pair<std::string, Worst>> all(worst_.begin(), worst_.end());
    std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.second.share > b.second.share; });
    if (all.size() > most) all.resize(most);
    for (const auto& [id, worst] : all)
      fmt::print("nearest {:5.1f} % of the bound, seed {}: {}\n", 100 * worst.share, worst.seed, id);
  }

 private:
  struct Worst {
    double share = -1;
    uint64_t seed = 0;
  };
  std::map<std::string, Worst> worst_;
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

int run(int argc, char** argv) {
  tachy::OpRunnerOptions options;
  std::string device = "cpu";
  bool summary = false;  // only failures, timings and a count
  bool threads_given = false;
  tachy::RandomCases random;
  uint64_t last_seed = options.seed, first = 0, shares = 1;
  std::vector<std::string> filters{""};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&] {
      tachy::require(i + 1 < argc, "{}: expected a value, got none", flag);
      return std::string(argv[++i]);
    };
    if (flag == "--op")
      filters = split(value());
    else if (flag == "--seed")
      last_seed = options.seed = whole_number(flag, value());
    else if (flag == "--seeds") {
      const std::string range = value();
      const size_t dots = range.find("..");
      tachy::require(dots != std::string::npos, "--seeds: expected a range such as 1..500, got '{}'", range);
      options.seed = whole_number(flag, range.substr(0, dots)),
      last_seed = whole_number(flag, range.substr(dots + 2));
      tachy::require(options.seed <= last_seed, "--seeds: expected a range such as 1..500, got '{}'", range);
    } else if (flag == "--threads")
      options.threads = static_cast<int>(whole_number(flag, value())), threads_given = true;
    else if (flag == "--max-mflop")
      options.max_flops = 1e6 * static_cast<double>(whole_number(flag, value()));
    else if (flag == "--without")
      options.without = split(value());
    else if (flag == "--share") {
      const std::string share = value();
      const size_t slash = share.find('/');
      tachy::require(slash != std::string::npos, "--share: expected two numbers such as 2/5, got '{}'",
                     share);
      first = whole_number(flag, share.substr(0, slash)),
      shares = whole_number(flag, share.substr(slash + 1));
      tachy::require(first < shares, "--share: expected a number below {}, got {}", shares, first);
    } else if (flag == "--random")
      random.count = static_cast<int64_t>(std::min<uint64_t>(whole_number(flag, value()), 10'000'000));
    else if (flag == "--of")
      random.of = value();
    else if (flag == "--real")
      options.real = true;
    else if (flag == "--perf")
      options.perf = options.real = true;
    else if (flag == "--device")
      device = value();
    else if (flag == "--dtype")
      options.dtype = dtype_named(value());
    else if (flag == "--modes") {
      const std::string list = value();
      const auto has = [&](const char* mode) { return list.find(mode) != std::string::npos; };
      options.ref = has("ref"), options.bitwise = has("bitwise"), options.canary = has("canary");
      options.capture = has("capture");
    } else if (flag == "--kinds") {
      const std::string list = value();
      const auto has = [&](const char* kind) { return list.find(kind) != std::string::npos; };
      options.tiny = has("tiny"), options.odd = has("odd"), options.real = has("real");
      options.video = has("video");
    } else if (flag == "--cases") {
      for (const tachy::ops::OpCase& c : tachy::all_op_cases()) fmt::print("{}:{}\n", c.op, c.name);
      return 0;
    } else if (flag == "--isa")
      limit_isa(value());
    else if (flag == "--summary")
      summary = true;
    else if (flag == "--list") {
      std::set<std::string> told;
      for (const tachy::ops::OpCase& c : tachy::all_op_cases())
        if (told.insert(c.op).second) fmt::print("{}\n", c.op);
      return 0;
    } else
      tachy::fail(tachy::ErrorCode::invalid_argument, "unknown option '{}'", flag);
  }
  if (options.perf) {
    options.ref = options.bitwise = options.canary = options.capture = options.tiny = options.odd = false;
    options.video = device != "cpu";
    if (device == "cpu")
      fmt::print("copy of 64 MB, one thread: {:.2f} GB/s read and written\n", copy_gb_per_s());
  }
  std::unique_ptr<tachy::cuda::Gpu> gpu;
  if (device != "cpu") {
    tachy::require(device.starts_with("cuda"), "--device: expected cpu, cuda or cuda:N, got '{}'", device);
    gpu = tachy::cuda::open_gpu(device.size() > 5 ? std::stoi(device.substr(5)) : 0);
    options.gpu = gpu.get();
    if (!threads_given) options.threads = tachy::available_processors();
    fmt::print("{}, {} multiprocessors, {}\n", gpu->info().name, gpu->info().multiprocessors,
               tachy::dtype_name(options.dtype));
  }
  tachy::GpuCeilings ceilings;
  if (gpu && options.perf) {
    tachy::ThreadPool pool(options.threads);
    ceilings = tachy::measure_ceilings(*gpu, options.dtype, pool);
    options.ceilings = &ceilings;
    fmt::print("copy of 512 MiB: {:.3f} TB/s read and written\n", ceilings.copy_gb_per_s * 1e-3);
    if (ceilings.matmul_gflops > 0)
      fmt::print("matmul of 8192: {:.1f} TFLOP/s\n", ceilings.matmul_gflops * 1e-3);
    if (!ceilings.note.empty()) fmt::print("{}\n", ceilings.note);
  }
  bool ok = true;
  size_t passed = 0, skipped = 0, failed = 0;
  Nearest nearest;
  const bool many = options.seed < last_seed;
  const auto tell = [&](const tachy::OpResult& r) {
    ++(r.skipped ? skipped : r.ok ? passed : failed);
    nearest.add(r);
    ok = ok && r.ok;
    if (summary && (r.skipped || r.ok) && r.mode != "perf") return;
    fmt::print("{:7} {:8} {:52} {}\n", r.skipped ? "skip" : r.ok ? "ok" : "FAILED", r.mode, r.id(), r.detail);
    if (!r.ok) fmt::print("        {}\n", tachy::spelled(r.repeat()));
    std::fflush(stdout);
  };
  for (uint64_t count = last_seed - options.seed + 1; count > 0; --count, ++options.seed) {
    const auto all = random.count > 0 ? random_cases(random, options.seed) : tachy::all_op_cases();
    std::vector<tachy::ops::OpCase> cases;
    for (size_t n = first; n < all.size(); n += shares) cases.push_back(all[n]);
    for (const std::string& filter : filters) {
      options.filter = filter;
      for (const auto& r : tachy::run_ops(options, cases)) tell(r);
    }
  }
  if (summary && many) nearest.print(20);
  if (summary) fmt::print("{} passed, {} skipped, {} failed\n", passed, skipped, failed);
  return ok ? 0 : 1;
}

// Returns how messages spell an option of the op runner (base/field.h).
std::string_view option_of(std::string_view field) {
  return field == "filter"    ? "--op"
         : field == "seed"    ? "--seed"
         : field == "device"  ? "--device"
         : field == "dtype"   ? "--dtype"
         : field == "threads" ? "--threads"
                              : "";
}

}  // namespace

int main(int argc, char** argv) {
  tachy::set_spelling(option_of);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "op_runner: {}\n", tachy::spelled(error.what()));
    return 2;
  }
}
