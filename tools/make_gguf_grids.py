#!/usr/bin/env python3
"""Makes src/tensor/gguf_grids.h from the tables of the `gguf` package (0.19.0).

    python tools/make_gguf_grids.py > src/tensor/gguf_grids.h

A grid is a list of rows of digits: eight of base 3, or four of base 8, the first the lowest. Read as numbers, the rows
ascend from 0, so a row is written as its difference from the one before: a character from '#' (0) to '[' (56), with a
'~' before it for each 57 more.
"""

import numpy as np
from gguf import quants

GRIDS = {"kGrid2": "IQ2_XXS", "kGrid2Xs": "IQ2_XS", "kGrid2S": "IQ2_S", "kGrid1": "IQ1_S", "kGrid3": "IQ3_XXS", "kGrid3S": "IQ3_S"}


def text_of(name):
    kind = getattr(quants, name)
    kind.init_grid()
    values = list(kind.grid_map)
    digits = np.vectorize(values.index)(kind.grid.reshape(kind.grid_shape).astype(int))
    numbers = (digits * len(values) ** np.arange(digits.shape[1])).sum(1)
    steps = np.diff(numbers)
    assert numbers[0] == 0 and (steps > 0).all()
    return len(values), len(numbers), "".join("~" * (int(s) // 57) + chr(ord("#") + int(s) % 57) for s in steps)


def main():
    print("// The grids of GGUF's types of 1 to 3 bits, made by tools/make_gguf_grids.py, which says how they are written.")
    print("#pragma once\n")
    print("#include <array>\n#include <cstddef>\n#include <cstdint>\n#include <string_view>\n")
    print("namespace tachy::gguf {\n")
    print("// Rows of N digits of a base, two bits a digit of base 3, three a digit of base 8, the first digit the lowest.")
    print("template <size_t Rows, int Base>")
    print("consteval std::array<uint16_t, Rows> grid_of(std::string_view steps) {")
    print("  std::array<uint16_t, Rows> out{};")
    print("  size_t row = 1;")
    print("  for (int number = 0; const char c : steps) {")
    print("    number += c == '~' ? 57 : c - '#';")
    print("    if (c == '~') continue;")
    print("    int bits = 0, left = number;")
    print("    for (int at = 0; left > 0; at += Base == 3 ? 2 : 3, left /= Base) bits |= left % Base << at;")
    print("    out[row++] = static_cast<uint16_t>(bits);")
    print("  }")
    print("  if (row != Rows) throw \"a grid has other rows\";")
    print("  return out;")
    print("}\n")
    print("// clang-format off")
    for constant, name in GRIDS.items():
        base, rows, text = text_of(name)
        print(f"inline constexpr auto {constant} = grid_of<{rows}, {base}>(  // {name.lower()}")
        lines = [text[i:i + 110] for i in range(0, len(text), 110)]
        print("\n".join(f'    "{line}"' for line in lines) + ");")
    print("// clang-format on\n\n}  // namespace tachy::gguf")


if __name__ == "__main__":
    main()
