#include "bind/op.h"

#include <algorithm>
#include <cstring>

#include "bind/convert.h"

namespace tachy::python {

Result Result::contiguous(DType dtype, std::span<const int64_t> dims) {
  Result r;
  r.dtype = dtype;
  r.rank = static_cast<int>(dims.size());
  int64_t step = 1;
  for (int i = r.rank - 1; i >= 0; --i) {
    r.dims[i] = dims[static_cast<size_t>(i)];
    r.strides[i] = step;
    step *= std::max<int64_t>(1, r.dims[i]);
  }
  return r;
}

Signature parse_signature(const Op& op) {
  const std::string_view text = op.signature;
  const size_t close = text.rfind(')', text.find("->"));
  Signature out;
  size_t at = 1;
  while (at < close) {
    const size_t end = std::min(close, text.find(',', at));
    std::string_view word = text.substr(at, end - at);
    while (word.front() == ' ') word.remove_prefix(1);
    const size_t space = word.find(' ');
    const std::string_view type = word.substr(0, space);
    const Kind kind = type == "Tensor"    ? Kind::tensor
                      : type == "Tensor?" ? Kind::optional_tensor
                      : type == "float"   ? Kind::number
                      : type == "int"     ? Kind::integer
                                          : Kind::flag;
    out.arguments.push_back({kind, std::string(word.substr(space + 1))});
    at = end + 1;
  }
  const std::string_view made = text.substr(close);
  for (size_t i = 0; (i = made.find("Tensor", i)) != std::string_view::npos; ++i) ++out.results;
  return out;
}

namespace {

// Returns the range of bytes that a view may touch, as [first, last).
std::pair<uintptr_t, uintptr_t> extent(const Tensor& t) {
  int64_t low = 0, high = 0;
  for (int i = 0; i < t.rank; ++i) {
    const int64_t reach = (t.dims[i] - 1) * t.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const auto base = reinterpret_cast<uintptr_t>(t.data);
  const auto size = static_cast<int64_t>(dtype_size(t.dtype));
  return {base + static_cast<uintptr_t>(low * size), base + static_cast<uintptr_t>((high + 1) * size)};
}

bool same_view(const Tensor& a, const Tensor& b) {
  return a.data == b.data && a.dtype == b.dtype && same_shape(a, b) &&
         std::equal(a.strides, a.strides + a.rank, b.strides);
}

bool overlap(const Tensor& a, const Tensor& b) {
  if (!b.defined() || a.numel() == 0 || b.numel() == 0) return false;
  const auto [a0, a1] = extent(a);
  const auto [b0, b1] = extent(b);
  return a0 < b1 && b0 < a1;
}

void expect_apart(const Op& op, const Signature& signature, Inputs in, std::span<const Tensor> out) {
  for (size_t o = 0; o < out.size(); ++o) {
    for (size_t i = 0; i < in.size(); ++i) {
      const Tensor& t = in[i].tensor;
      if (!t.defined() || !overlap(t, out[o]) || (op.in_place && i == 0 && same_view(t, out[o]))) continue;
      fail(ErrorCode::invalid_argument, "{}: expected out in memory of its own{}, got some of {}'s", op.name,
           op.in_place ? " or all of " + signature.arguments[0].name + " itself" : "",
           signature.arguments[i].name);
    }
  }
}

}  // namespace

void expect_result(const Op& op, const Tensor& given, const Result& expected, const Tensor& first) {
  const std::span<const int64_t> dims(expected.dims, static_cast<size_t>(expected.rank));
  require(given.defined() && std::ranges::equal(given.shape(), dims), "{}: expected out {}, got {}", op.name,
          shown(dims), shown(given));
  require(given.dtype == expected.dtype, "{}: expected out {}, got {}", op.name, dtype_name(expected.dtype),
          dtype_name(given.dtype));
  require(given.device == first.device, "{}: expected out on {}, got it on {}", op.name, shown(first.device),
          shown(given.device));
  for (int i = 0; i < given.rank; ++i)
    require(given.strides[i] != 0 || given.dims[i] <= 1,
            "{}: expected out with a place for each value, got stride 0 along dim {}", op.name, i);
}

void run_op(const Op& op, const Signature& signature, Inputs in, std::span<const Tensor> out,
            Context& context) {
  const Tensor& first = in[0].tensor;
  for (size_t i = 1; i < in.size(); ++i) {
    const Tensor& t = in[i].tensor;
    require(!t.defined() || t.device == first.device, "{}: expected {} on {} as {}, got it on {}", op.name,
            signature.arguments[i].name, shown(first.device), signature.arguments[0].name, shown(t.device));
  }
  expect_apart(op, signature, in, out);
  if (first.numel() == 0) {  // there are no values: sums over them are zero
    for (const Tensor& t : out) zero(t, context);
    return;
  }
  op.run(in, out, context);
}

}  // namespace tachy::python
