// Bytes of the system's generator, which nobody can foresee: for keys, tokens and ids.
#pragma once

#include <cstddef>
#include <string>

namespace tachy {

std::string random_bytes(size_t count);
std::string random_hex(size_t digits);  // 4 bits each

}  // namespace tachy
