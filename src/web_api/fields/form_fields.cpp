#include "web_api/fields/form_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "web_api/api_error.h"
#include "web_api/fields/values.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

constexpr size_t kMostNameBytes = 200, kDeepestName = 4;
using Steps = std::vector<std::string>;  // "a[][b]" is a, "", b

[[noreturn]] void refuse_part(std::string_view name, const std::string& why) {
  throw ApiError("invalid_value", fmt::format("`{}`: {}", shown(name), why), shown(name));
}

Steps steps_of(std::string_view name) {
  if (name.size() > kMostNameBytes)
    refuse_part(name, fmt::format("a name has at most {} bytes", kMostNameBytes));
  const size_t first = std::min(name.find('['), name.size());
  Steps out = {std::string(name.substr(0, first))};
  for (std::string_view rest = name.substr(first); !rest.empty();) {
    const size_t close = rest.find(']');
    const bool good =
        rest.front() == '[' && close != rest.npos && rest.substr(1, close - 1).find('[') == rest.npos;
    if (!good || out.size() == kDeepestName)
      refuse_part(name, "expected a name such as a, a[b], a[] or a[][b]");
    out.emplace_back(rest.substr(1, close - 1));
    rest.remove_prefix(close + 1);
  }
  if (out[0].empty() || out[0].find(']') != std::string::npos)
    refuse_part(name, "expected a name such as a, a[b], a[] or a[][b]");
  return out;
}

struct Member;

// A field while its parts come in.
struct Node {
  enum class Kind { fresh, leaf, list, columns, object } kind = Kind::fresh;
  json leaf;
  std::vector<json> items;      // of a list
  std::vector<Member> members;  // of an object
  std::vector<std::pair<std::string, std::vector<json>>> columns;

  void become(Kind wanted, std::string_view name) {
    if (kind == Kind::leaf && wanted == Kind::leaf) refuse_part(name, "it is given twice");
    if (kind != Kind::fresh && kind != wanted) refuse_part(name, "it is given in two forms");
    kind = wanted;
  }
};

struct Member {
  std::string name;
  Node node;
};

template <class Entry>
auto& entry(std::vector<Entry>& entries, const std::string& key) {
  for (auto& [known, value] : entries)
    if (known == key) return value;
  auto& [known, value] = entries.emplace_back(Entry{key, {}});
  return value;
}

void add(Node& node, std::span<const std::string> rest, json leaf, std::string_view name) {
  if (rest.empty()) {
    node.become(Node::Kind::leaf, name);
    node.leaf = std::move(leaf);
  } else if (rest[0].empty() && rest.size() == 1) {
    node.become(Node::Kind::list, name);
    node.items.push_back(std::move(leaf));
  } else if (rest[0].empty()) {
    if (rest.size() != 2 || rest[1].empty()) refuse_part(name, "a list of objects has names such as a[][b]");
    node.become(Node::Kind::columns, name);
    entry(node.columns, rest[1]).push_back(std::move(leaf));
  } else {
    node.become(Node::Kind::object, name);
    add(entry(node.members, rest[0]), rest.subspan(1), std::move(leaf), name);
  }
}

json rows_of(const Node& node, const std::string& name) {
  json rows = json::array();
  const size_t count = node.columns.front().second.size();
  for (const auto& [key, values] : node.columns) {
    if (values.size() != count)
      throw ApiError(
          "invalid_value",
          fmt::format("`{}`: there are {} of `{}` and {} of `{}`, so they cannot be put together; give "
                      "each entry the same members, or the whole list as JSON in one text",
                      shown(name), count, shown(node.columns.front().first), values.size(), shown(key)),
          shown(name));
    for (size_t i = 0; i < count; ++i) rows[i][key] = values[i];
  }
  return rows;
}

json value_of(const Node& node, const std::string& name) {
  switch (node.kind) {
    case Node::Kind::leaf:
    case Node::Kind::fresh:
      return node.leaf;
    case Node::Kind::list:
      return node.items;
    case Node::Kind::columns:
      return rows_of(node, name);
    case Node::Kind::object:
      break;
  }
  json object = json::object();
  for (const auto& [key, member] : node.members) object[key] = value_of(member, name);
  // Numbers from 0 on make a list.
  json list = json::array();
  for (size_t i = 0; i < node.members.size() && object.contains(std::to_string(i)); ++i)
    list.push_back(object[std::to_string(i)]);
  return list.size() == object.size() ? list : object;
}

void check_text(std::string_view text, std::string_view name, const char* what) {
  if (find_invalid_utf8(text) != kValidUtf8) refuse_part(name, fmt::format("{} is not UTF-8", what));
  if (text.find('\0') != text.npos) refuse_part(name, fmt::format("{} has a NUL in it", what));
}

}  // namespace

json form_fields(const std::vector<http::Part>& parts,
                 std::vector<std::shared_ptr<http::SpooledFile>>& files) {
  Node all;
  for (const http::Part& part : parts) {
    check_text(part.name, part.name, "its name");
    check_text(part.text, part.name, "its text");
    // A page's form sends this for a file that nobody has chosen.
    if (part.file && part.file->bytes == 0 && part.file->filename().empty()) continue;
    json leaf = part.text;
    if (part.file) {
      leaf = {{"file", files.size()}};
      files.push_back(part.file);
    }
    add(all, steps_of(part.name), std::move(leaf), part.name);
  }
  json out = json::object();
  for (const auto& [name, node] : all.members) out[name] = value_of(node, name);
  return out;
}

}  // namespace tachy::web_api
