// What a signal handler may still say and do: which file a fault in mapped
// memory belongs to, and which half-written files to remove. Fixed tables
// without locks or allocation: a handler may run at any moment, in any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace tachy {

// A file mapped at [begin, begin + bytes). A full table forgets the rest: a handler then cannot name them.
void note_mapping(const void* begin, uint64_t bytes, std::string_view file) noexcept;
void forget_mapping(const void* begin) noexcept;

// A temporary file that means nothing without this process, or a folder made for such. Paths that do not fit
// are not kept; a folder that is not empty in the end stays.
void note_temporary(std::string_view path) noexcept;
void forget_temporary(std::string_view path) noexcept;

// Both may be called in a signal handler. The file mapped at
// `address`, or nullptr; and the unlinking of all temporaries.
const char* file_mapped_at(const void* address, uint64_t* offset) noexcept;
void remove_temporaries() noexcept;

}  // namespace tachy
