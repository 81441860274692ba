// The grid of blocks that share a scale, for every implementation of quantize and dequantize.
#pragma once

#include <algorithm>

#include "ops/quantize/quantize.h"

namespace tachy::ops {

// The blocks of a matrix, with 0 replaced by the extent.
struct QuantGrid {
  int64_t rows, columns;              // size of the matrix
  int64_t block_rows, block_columns;  // size of a block
  int64_t bands, strips;              // blocks down and across

  QuantGrid(const Tensor& matrix, QuantBlock block)
      : rows(matrix.dims[0]),
        columns(matrix.dims[1]),
        block_rows(std::clamp<int64_t>(block.rows ? block.rows : rows, 1, std::max<int64_t>(1, rows))),
        block_columns(
            std::clamp<int64_t>(block.columns ? block.columns : columns, 1, std::max<int64_t>(1, columns))),
        bands((rows + block_rows - 1) / block_rows),
        strips((columns + block_columns - 1) / block_columns) {}
};

}  // namespace tachy::ops
