#include "seed.h"

#include <charconv>
#include <random>

#include "generate_options.h"

namespace tachy::cli {

std::string check_drawable_seed(const std::string& text) {
  if (text == "-1") return "";
  const std::string wrong = check_seed(text);
  return wrong.empty() ? "" : wrong + "; -1 draws one";
}

std::optional<uint64_t> seed_in(const std::string& text) {
  if (text == "-1") return std::nullopt;
  uint64_t seed = 0;
  std::from_chars(text.data(), text.data() + text.size(), seed);
  return seed;
}

uint64_t draw_seed() {
  std::random_device device;
  return std::uniform_int_distribution<uint32_t>()(device);
}

}  // namespace tachy::cli
