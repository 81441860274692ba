// Windows-1252 as web browsers read it: bytes 0x80..0x9F that the code page leaves undefined have their
// Latin-1 meaning.
#pragma once

namespace tachy::text {

inline constexpr char16_t kWindows1252[32] = {0x20AC, 0x81,   0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                              0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D,   0x017D, 0x8F,
                                              0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                              0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D,   0x017E, 0x0178};

inline char32_t windows1252_char(unsigned char byte) {
  return byte >= 0x80 && byte <= 0x9F ? kWindows1252[byte - 0x80] : byte;
}

// Returns the byte for `c` in Windows-1252 or Latin-1, or -1.
inline int windows1252_byte(char32_t c) {
  if (c < 0x100) return static_cast<int>(c);
  for (int i = 0; i < 32; ++i)
    if (kWindows1252[i] == c) return 0x80 + i;
  return -1;
}

}  // namespace tachy::text
