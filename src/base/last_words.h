// What a signal handler needs to know: which file a fault in mapped memory belongs to, and which half-written
// files to remove. The tables have a fixed size, and need no locks or allocation, because a handler may run
// at any moment in any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace tachy {

// Notes a file that is mapped at [begin, begin + bytes). If the table is full, the file is not noted, and a
// handler cannot name it.
void note_mapping(const void* begin, uint64_t bytes, std::string_view file) noexcept;
void forget_mapping(const void* begin) noexcept;

// Notes a temporary file that is useless without this process, or a folder made for such files. A path that
// does not fit is not noted; a folder that is not empty at the end is left alone.
void note_temporary(std::string_view path) noexcept;
void forget_temporary(std::string_view path) noexcept;

// A signal handler may call both. The first finds the file that is mapped at `address` (or returns nullptr),
// the second unlinks all temporary files.
const char* file_mapped_at(const void* address, uint64_t* offset) noexcept;
void remove_temporaries() noexcept;

}  // namespace tachy
