// Information for a signal handler: which file a fault in mapped memory belongs to, and which half-written
// files to remove. These are fixed tables without locks or allocation, because a handler may run at any
// moment, in any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace tachy {

// Notes a file that is mapped at [begin, begin + bytes). A full table ignores further files: a handler then
// cannot name them.
void note_mapping(const void* begin, uint64_t bytes, std::string_view file) noexcept;
void forget_mapping(const void* begin) noexcept;

// Notes a temporary file that is useless without this process, or a folder made for such files. Paths that do
// not fit are not kept; a folder that is not empty at the end stays.
void note_temporary(std::string_view path) noexcept;
void forget_temporary(std::string_view path) noexcept;

// A signal handler may call both: to find the file that is mapped at `address` (or nullptr), and to unlink
// all temporary files.
const char* file_mapped_at(const void* address, uint64_t* offset) noexcept;
void remove_temporaries() noexcept;

}  // namespace tachy
