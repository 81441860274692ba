#include "base/last_words.h"

#include <atomic>
#include <cstring>

#include "base/os/folder.h"

namespace tachy {
namespace {

struct Slot {
  enum : int { kFree, kBusy, kValid };
  std::atomic<int> state{kFree};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uint64_t> bytes{0};
  // It is never freed, so a handler that reads a slot while it changes sees a wrong name but no dangling
  // pointer.
  char text[1024];
};

constexpr int kSlots = 256;
Slot g_mappings[kSlots], g_temporaries[kSlots];

void note(Slot (&table)[kSlots], uintptr_t begin, uint64_t bytes, std::string_view text) noexcept {
  if (text.size() >= sizeof(Slot::text)) return;
  for (Slot& slot : table) {
    int free = Slot::kFree;
    if (!slot.state.compare_exchange_strong(free, Slot::kBusy)) continue;
    slot.begin = begin, slot.bytes = bytes;
    std::memcpy(slot.text, text.data(), text.size());
    slot.text[text.size()] = 0;
    slot.state.store(Slot::kValid, std::memory_order_release);
    return;
  }
}

}  // namespace

void note_mapping(const void* begin, uint64_t bytes, std::string_view file) noexcept {
  note(g_mappings, reinterpret_cast<uintptr_t>(begin), bytes, file);
}

void forget_mapping(const void* begin) noexcept {
  for (Slot& slot : g_mappings)
    if (slot.state.load() == Slot::kValid && slot.begin == reinterpret_cast<uintptr_t>(begin)) {
      slot.state.store(Slot::kFree);
      return;
    }
}

void note_temporary(std::string_view path) noexcept { note(g_temporaries, 0, 0, path); }

void forget_temporary(std::string_view path) noexcept {
  for (Slot& slot : g_temporaries)
    if (slot.state.load() == Slot::kValid && path == slot.text) {
      slot.state.store(Slot::kFree);
      return;
    }
}

const char* file_mapped_at(const void* address, uint64_t* offset) noexcept {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const Slot& slot : g_mappings)
    if (slot.state.load(std::memory_order_acquire) == Slot::kValid && at - slot.begin < slot.bytes) {
      *offset = at - slot.begin;
      return slot.text;
    }
  return nullptr;
}

void remove_temporaries() noexcept {
  for (const auto remove : {os::remove_file, os::remove_empty_folder})  // only empty folders can be removed
    for (const Slot& slot : g_temporaries)
      if (slot.state.load(std::memory_order_acquire) == Slot::kValid) remove(slot.text);
}

}  // namespace tachy
