#include "postgres/address.h"

#include <map>
#include <memory>

#include "base/error.h"
#include "postgres/libpq.h"

namespace tachy::postgres {
namespace {

constexpr const char* kExpected = "expected an address such as postgresql://USER@HOST:5432/NAME";

// Returns the options that the address gives. libpq's own reason is left out, since it repeats the address.
std::map<std::string, std::string> options_of(const std::string& address) {
  const LibPq& pq = libpq();
  char* message = nullptr;
  const std::unique_ptr<PgOption, void (*)(PgOption*)> options(pq.parse(address.c_str(), &message),
                                                               pq.free_options);
  if (message) pq.free(message);
  require(options != nullptr,
          "`database`: {}; the one that was given cannot be read (it may have an unknown option, or a letter "
          "that "
          "must be written as %..)",
          kExpected);
  std::map<std::string, std::string> given;
  for (const PgOption* option = options.get(); option->keyword; ++option)
    if (option->value) given[option->keyword] = option->value;
  return given;
}

}  // namespace

void check_address(const std::string& address) {
  require(address.starts_with("postgresql://") || address.starts_with("postgres://"),
          "`database`: {}; the one that was given begins otherwise", kExpected);
  require(address.find('\0') == address.npos, "`database`: {}", kExpected);
  options_of(address);
}

std::string shown_address(const std::string& address) {
  const auto given = options_of(address);
  const auto value = [&](const char* name) {
    const auto it = given.find(name);
    return it == given.end() ? std::string() : it->second;
  };
  std::string host = value("host").empty() ? value("hostaddr") : value("host");
  if (!host.empty() && !value("port").empty()) host += ":" + value("port");
  return fmt::format("postgresql://{}/{}", host, value("dbname"));
}

}  // namespace tachy::postgres
