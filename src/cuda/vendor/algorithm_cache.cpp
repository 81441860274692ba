// The file has a first line "tachyscope algorithms 2 NAME", then one line per key: eight 16-digit hexadecimal
// words, their sum as a ninth (so that a torn line can be told from a whole one), and the key.
#include "cuda/vendor/algorithm_cache.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "base/os/nvidia.h"
#include "base/os/process.h"
#include "cuda/vendor/kept_choices.h"

namespace tachy::cuda {
namespace {

constexpr const char* kFirstWords = "tachyscope algorithms 2 ";
constexpr size_t kWordDigits = 16, kMostLines = 10000;

uint64_t sum_of(const AlgorithmWords& words, const std::string& key) {
  uint64_t sum = 1469598103934665603u;
  for (const uint64_t word : words) sum = (sum ^ word) * 1099511628211u;
  for (const char c : key) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return sum;
}

bool read_word(const std::string& line, size_t index, uint64_t& word) {
  const char* begin = line.data() + index * (kWordDigits + 1);
  const auto got = std::from_chars(begin, begin + kWordDigits, word, 16);
  return got.ec == std::errc() && got.ptr == begin + kWordDigits;
}

}  // namespace

std::string measured_on(const GpuInfo& gpu) {
  const std::string driver = os::nvidia_driver_version();
  return fmt::format("{}-driver{}", gpu.name, driver.empty() ? std::to_string(gpu.driver) : driver);
}

AlgorithmCache::AlgorithmCache(const std::string& name) : name_(name) {
  const std::string folder = kept_choices_folder();
  if (folder.empty()) return;
  std::string file;
  for (const char c : name)
    file += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ? c : '_';
  path_ = folder + "/" + file + ".txt";
  read();
}

void AlgorithmCache::complain(const std::string& what) {
  if (!complaint_.empty()) return;
  complaint_ = what;
  warn("{}: {}; the next measurement writes it again", path_, what);
}

void AlgorithmCache::read() {
  std::ifstream in(path_);
  std::string line;
  if (!in) return;  // nothing has been kept yet
  if (!std::getline(in, line) || !line.starts_with(kFirstWords))
    return complain("expected kept algorithms, got another file: it is not used");
  if (line.substr(std::string_view(kFirstWords).size()) != name_)
    return complain(fmt::format("expected algorithms of '{}', got those of '{}': they are not used", name_,
                                line.substr(std::string_view(kFirstWords).size())));
  size_t damaged = 0;
  for (size_t count = 0; count < kMostLines && std::getline(in, line); ++count) {
    constexpr size_t kKeyAt = 9 * (kWordDigits + 1);
    AlgorithmWords words{};
    uint64_t sum = 0;
    bool good = line.size() > kKeyAt && read_word(line, 8, sum);
    for (size_t i = 0; i < words.size(); ++i) good = good && read_word(line, i, words[i]);
    const std::string key = good ? line.substr(kKeyAt) : "";
    if (good && sum == sum_of(words, key))
      all_.insert_or_assign(key, words);
    else
      ++damaged;
  }
  if (damaged > 0) complain(fmt::format("{} of its lines are damaged and were left out", damaged));
}

const AlgorithmWords* AlgorithmCache::find(const std::string& key) const {
  const auto found = all_.find(key);
  return found == all_.end() ? nullptr : &found->second;
}

void AlgorithmCache::keep(const std::string& key, const AlgorithmWords& words) {
  if (path_.empty()) return void(all_.insert_or_assign(key, words));
  read();  // includes what another process has added meanwhile
  all_.insert_or_assign(key, words);
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  const std::string temporary = fmt::format("{}.{}", path_, os::process_id());
  {
    std::ofstream out(temporary);
    out << kFirstWords << name_ << '\n';
    for (const auto& [k, w] : all_) {
      for (const uint64_t word : w) out << fmt::format("{:016x} ", word);
      out << fmt::format("{:016x} {}\n", sum_of(w, k), k);
    }
    out.close();
    if (!out) return void(std::filesystem::remove(temporary, error));
  }
  std::filesystem::rename(temporary, path_, error);
  if (error) std::filesystem::remove(temporary, error);
}

}  // namespace tachy::cuda
