// What a pickle's opcodes work on (pickle_reader.cpp): the bytes, the stack with its marks, and the memo. All
// are limited and bounds-checked, whatever the bytes say.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "weights/torch/pickle_reader.h"

namespace tachy {

class PickleStack {
 protected:
  using Kind = PickleValue::Kind;

  static constexpr size_t kMaxValues = 4'000'000, kMaxStack = 1'000'000, kMaxMemo = 4'000'000;

  PickleStack(std::span<const std::byte> bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> text, Args&&... args) const {
    fail(ErrorCode::corrupt, "{}: byte {}: {}", what_, opcode_at_,
         fmt::format(text, std::forward<Args>(args)...));
  }
  void need(bool ok, const char* expected) const {
    if (!ok) [[unlikely]]
      bad("expected {}", expected);
  }

  std::string_view take_text(uint64_t count) {
    need(count <= bytes_.size() - at_, "more bytes before the end of the pickle");
    const std::string_view out(reinterpret_cast<const char*>(bytes_.data()) + at_,
                               static_cast<size_t>(count));
    at_ += count;
    return out;
  }
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_text(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view take_line() {
    const auto rest =
        std::string_view(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
    const auto end = rest.find('\n');
    need(end != rest.npos, "a line end before the end of the pickle");
    at_ += end + 1;
    return rest.substr(0, end);
  }

  // Reads a signed little-endian integer of `count` bytes.
  int64_t take_long(uint64_t count) {
    const auto raw = take_text(count);
    need(count <= 8, "an integer of at most 64 bits");
    if (count == 0) return 0;
    uint64_t value = (static_cast<uint8_t>(raw.back()) & 0x80) ? ~0ull : 0ull;
    for (size_t i = count; i-- > 0;) value = (value << 8) | static_cast<uint8_t>(raw[i]);
    return static_cast<int64_t>(value);
  }

  void push(PickleIndex index) {
    need(stack_.size() < kMaxStack, "a smaller stack");
    stack_.push_back(index);
  }
  PickleIndex push(PickleValue value) {
    need(out_.values.size() < kMaxValues, "fewer values");
    out_.values.push_back(std::move(value));
    const auto index = static_cast<PickleIndex>(out_.values.size() - 1);
    push(index);
    return index;
  }
  void push_int(int64_t value) { push({.kind = Kind::integer, .integer = value}); }
  void push_bool(bool value) { push({.kind = Kind::boolean, .integer = value}); }
  void push_text(std::string_view text) { push({.kind = Kind::string, .text = std::string(text)}); }

  PickleIndex top() const {
    need(stack_.size() > (marks_.empty() ? 0 : marks_.back()), "a value on the stack");
    return stack_.back();
  }
  PickleIndex pop() {
    const auto index = top();
    stack_.pop_back();
    return index;
  }
  void push_mark() {
    need(marks_.size() < kMaxStack, "fewer marks");
    marks_.push_back(stack_.size());
  }
  std::vector<PickleIndex> pop_to_mark() {
    need(!marks_.empty(), "a mark on the stack");
    std::vector<PickleIndex> out(stack_.begin() + static_cast<int64_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return out;
  }
  std::vector<PickleIndex> pop_last(size_t count) {
    std::vector<PickleIndex> out(count);
    while (count > 0) out[--count] = pop();
    return out;
  }

  void memoize(uint64_t index) {
    need(index < kMaxMemo, "a smaller memo index");
    if (index >= memo_.size()) memo_.resize(index + 1, kNoValue);
    memo_[index] = top();
  }
  void recall(uint64_t index) {
    need(index < memo_.size() && memo_[index] != kNoValue, "a memo entry that was stored before");
    push(memo_[index]);
  }

  static constexpr PickleIndex kNoValue = 0xffffffffu;

  std::span<const std::byte> bytes_;
  std::string_view what_;
  uint64_t at_ = 0, opcode_at_ = 0;
  Pickle out_;
  std::vector<PickleIndex> stack_, memo_;
  std::vector<size_t> marks_;
};

}  // namespace tachy
