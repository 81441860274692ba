// Runs LLVMFuzzerTestOneInput without libFuzzer, for compilers that lack it. It takes libFuzzer's usual
// arguments:
//
//   fuzz_x [-max_total_time=SECONDS] [-runs=N] [-seed=N] [-max_len=BYTES] [-artifact_prefix=DIR/]
//          FILE_OR_FOLDER…
//
// Every file given is run once. With a time or a number of runs, mutants of these files follow: a loop
// mutates bytes, blocks and numbers or splices two inputs, and keeps an input if it reaches code that none
// before it reached. Coverage comes from GCC's -fsanitize-coverage=trace-pc (a hash of edges). Operands of
// comparisons are remembered and pasted into inputs (trace-cmp), which gets magic numbers and lengths right.
// Without that instrumentation the driver mutates blindly. If the process dies, it writes the current input
// to a file.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

constexpr size_t kMapSize = 1 << 16, kOperands = 1024;
constexpr unsigned kHangSeconds = 20;
uint8_t g_hits[kMapSize];
uint64_t g_operands[kOperands];
uintptr_t g_previous = 0;
size_t g_operand_count = 0;

const Bytes* g_current = nullptr;
char g_artifact[4096];

// Makes only calls that a signal handler may make.
void save_current() {
  if (!g_current) return;
  FILE* out = std::fopen(g_artifact, "wb");
  if (!out) return;
  std::fwrite(g_current->data(), 1, g_current->size(), out);
  std::fclose(out);
  std::fprintf(stderr, "\nthe input is %s (%zu bytes)\n", g_artifact, g_current->size());
  g_current = nullptr;
}
void on_death(int signal) {
  if (signal == SIGALRM) std::fprintf(stderr, "\nan input took more than %u s\n", kHangSeconds);
  save_current();
  ::signal(signal, SIG_DFL);
  ::raise(signal == SIGALRM ? SIGABRT : signal);
  std::_Exit(77);
}

class Fuzzer {
 public:
  explicit Fuzzer(uint64_t seed) : random_(seed) {}

  // Runs the input; returns whether it reached new code.
  bool run(const Bytes& input) {
    std::memset(g_hits, 0, sizeof g_hits);
    g_previous = 0, g_operand_count = 0;
    g_current = &input;
    ::alarm(kHangSeconds);
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ::alarm(0);
    g_current = nullptr;
    ++runs;
    bool fresh = false;
    for (size_t i = 0; i < kMapSize; ++i) {
      if (g_hits[i] == 0) continue;
      // Counts are sorted roughly into 1, 2, 3, 4-7, 8-15, 16-31, 32-127, 128 and more.
      const uint8_t n = g_hits[i];
      const uint8_t bucket = n >= 128  ? 128
                             : n >= 32 ? 64
                             : n >= 16 ? 32
                             : n >= 8  ? 16
                             : n >= 4  ? 8
                             : n == 3  ? 4
                                       : n;
      if ((seen_[i] & bucket) == 0) seen_[i] |= bucket, fresh = true;
    }
    if (fresh) ++features;
    return fresh;
  }

  Bytes mutate(const std::vector<Bytes>& corpus, size_t max_length) {
    Bytes x = corpus[below(corpus.size())];
    for (size_t n = 1 + below(6); n > 0; --n) change(x, corpus);
    if (x.size() > max_length) x.resize(max_length);
    return x;
  }

  uint64_t runs = 0, features = 0;

 private:
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(random_() % n); }

  void change(Bytes& x, const std::vector<Bytes>& corpus) {
    const size_t at = below(x.size());
    const auto paste = [&](const void* bytes, size_t count) {
      if (x.empty() || below(4) == 0) {
        const auto* p = static_cast<const uint8_t*>(bytes);
        x.insert(x.begin() + static_cast<ptrdiff_t>(at), p, p + count);
      } else {
        std::memcpy(x.data() + at, bytes, std::min(count, x.size() - at));
      }
    };
    const auto block = [&](size_t limit) { return std::min(x.size() - at, 1 + below(limit)); };
    switch (below(11)) {
      case 0:
        if (!x.empty()) x[at] ^= static_cast<uint8_t>(1u << below(8));
        break;
      case 1:
        if (!x.empty()) x[at] = static_cast<uint8_t>(random_());
        break;
      case 2:
        if (!x.empty()) x[at] = static_cast<uint8_t>(x[at] + 1 - 2 * below(2));
        break;
      case 3: {
        constexpr uint64_t kOdd[] = {0,
                                     1,
                                     0x7f,
                                     0x80,
                                     0xff,
                                     0x7fff,
                                     0xffff,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     ~0ull};
        paste(&kOdd[below(std::size(kOdd))], size_t{1} << below(4));
        break;
      }
      case 4:
        if (!x.empty())
          x.erase(x.begin() + static_cast<ptrdiff_t>(at), x.begin() + static_cast<ptrdiff_t>(at + block(32)));
        break;
      case 5: {
        const Bytes piece(x.begin() + static_cast<ptrdiff_t>(at),
                          x.begin() + static_cast<ptrdiff_t>(at + (x.empty() ? 0 : block(64))));
        x.insert(x.begin() + static_cast<ptrdiff_t>(below(x.size() + 1)), piece.begin(), piece.end());
        break;
      }
      case 6: {
        const Bytes& other = corpus[below(corpus.size())];
        if (other.empty()) break;
        const size_t from = below(other.size()), count = std::min(other.size() - from, 1 + below(128));
        const Bytes piece(other.begin() + static_cast<ptrdiff_t>(from),
                          other.begin() + static_cast<ptrdiff_t>(from + count));
        paste(piece.data(), piece.size());
        break;
      }
      case 7:
        if (below(8) == 0) x.resize(at);  // truncates the input
        break;
      case 8: {  // puts another number in a text
        const std::string number = below(3) == 0 ? "-1" : std::to_string(random_() >> below(64));
        paste(number.data(), number.size());
        break;
      }
      default:
        if (const size_t count = std::min(g_operand_count, kOperands); count > 0)
          paste(&g_operands[below(count)], size_t{1} << below(4));
        break;
    }
  }

  std::mt19937_64 random_;
  uint8_t seen_[kMapSize] = {};
};

}  // namespace

// Instrumented code calls these functions, which are not instrumented themselves (their own flags see to
// that).
extern "C" {
void __sanitizer_cov_trace_pc() {
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint8_t& hits = g_hits[(pc ^ g_previous) % kMapSize];
  if (hits < 255) ++hits;
  g_previous = pc >> 1;
}
static inline void compared(uint64_t a, uint64_t b) {
  if (a == b) return;
  g_operands[g_operand_count++ % kOperands] = a;
  g_operands[g_operand_count++ % kOperands] = b;
}
void __sanitizer_cov_trace_cmp1(uint8_t, uint8_t) {}
void __sanitizer_cov_trace_cmp2(uint16_t a, uint16_t b) { compared(a, b); }
void __sanitizer_cov_trace_cmp4(uint32_t a, uint32_t b) { compared(a, b); }
void __sanitizer_cov_trace_cmp8(uint64_t a, uint64_t b) { compared(a, b); }
void __sanitizer_cov_trace_const_cmp1(uint8_t a, uint8_t b) { compared(a, b); }
void __sanitizer_cov_trace_const_cmp2(uint16_t a, uint16_t b) { compared(a, b); }
void __sanitizer_cov_trace_const_cmp4(uint32_t a, uint32_t b) { compared(a, b); }
void __sanitizer_cov_trace_const_cmp8(uint64_t a, uint64_t b) { compared(a, b); }
void __sanitizer_cov_trace_cmpf(float, float) {}
void __sanitizer_cov_trace_cmpd(double, double) {}
void __sanitizer_cov_trace_switch(uint64_t value, uint64_t* cases) {
  if (cases[0] > 0) compared(value, cases[2 + value % cases[0]]);
}
void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));
}

int main(int argc, char** argv) {
  double seconds = 0;
  uint64_t wanted = 0, seed = 1;
  size_t max_length = 1 << 16;
  std::string prefix;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&](std::string_view name) -> const char* {
      return word.starts_with(name) ? argv[i] + name.size() : nullptr;
    };
    if (const char* v = value("-max_total_time="))
      seconds = std::atof(v);
    else if (const char* v = value("-runs="))
      wanted = std::strtoull(v, nullptr, 10);
    else if (const char* v = value("-seed="))
      seed = std::strtoull(v, nullptr, 10);
    else if (const char* v = value("-max_len="))
      max_length = std::strtoull(v, nullptr, 10);
    else if (const char* v = value("-artifact_prefix="))
      prefix = v;
    else if (word.starts_with("-"))
      continue;  // the option is libFuzzer's and has no meaning here
    else if (fs::is_directory(word))
      for (const auto& item : fs::recursive_directory_iterator(word)) {
        if (item.is_regular_file()) files.push_back(item.path());
      }
    else
      files.emplace_back(word);
  }
  std::sort(files.begin(), files.end());
  std::snprintf(g_artifact, sizeof g_artifact, "%scrash-%d", prefix.c_str(), static_cast<int>(::getpid()));
  if (__sanitizer_set_death_callback)
    __sanitizer_set_death_callback(save_current);
  else
    for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(s, on_death);
  for (const int s : {SIGABRT, SIGALRM}) ::signal(s, on_death);

  static Fuzzer fuzzer(seed);
  std::vector<Bytes> corpus;
  for (const fs::path& path : files) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return std::fprintf(stderr, "cannot read %s\n", path.c_str()), 1;
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    fuzzer.run(corpus.back());
  }
  if (corpus.empty()) return std::fprintf(stderr, "no input: name files or a folder of them\n"), 1;
  std::fprintf(stderr, "%zu files ran\n", corpus.size());

  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const uint64_t first = fuzzer.runs;
  while ((seconds > 0 || wanted > 0) && (seconds <= 0 || elapsed() < seconds) &&
         (wanted == 0 || fuzzer.runs - first < wanted)) {
    Bytes input = fuzzer.mutate(corpus, max_length);
    if (fuzzer.run(input) && corpus.size() < 20000) corpus.push_back(std::move(input));
  }
  std::fprintf(stderr, "%llu runs in %.1f s, %zu inputs kept\n",
               static_cast<unsigned long long>(fuzzer.runs - first), elapsed(), corpus.size());
  return 0;
}
