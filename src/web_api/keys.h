// The keys of a server, one a line of a file: NAME SHA256-OF-KEY [priority] [admin]. The file has hashes alone, so
// whoever reads it cannot send requests; but whoever can write it could add a key of their own.
//
//   # the team's notebook
//   alice 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae priority
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hmac.h"
#include "http/message.h"

namespace tachy::web_api {

class Keys {
 public:
  // Reads the file. Throws not_found and io, and invalid_argument with the file and the line: for a line
  // without a key, a name or key that is there twice, a file that others may write, and one without any key.
  static Keys read(const std::filesystem::path& file);

  // Returns who has this key, or nothing. It takes the same time for any key.
  std::optional<http::Caller> find(std::string_view key) const;
  std::vector<http::Caller> holders() const;  // in the order of the file
  size_t size() const { return keys_.size(); }

 private:
  struct Key {
    http::Caller caller;
    Digest hash;
  };
  std::vector<Key> keys_;
};

// Makes a key for this name, appends its line to the file (which is made if it is not there), and returns the key:
// "tk-" and 43 letters, digits, - and _. It is written nowhere else. Throws invalid_argument for a name that is not
// 1 to 64 letters, digits, ".", "-" and "_" or that has a key already, and what read() throws.
std::string new_key(const std::filesystem::path& file, const std::string& name);

// Returns the key in the value of an Authorization header, "Bearer tk-…", or "".
std::string_view bearer_of(std::string_view authorization);

}  // namespace tachy::web_api
