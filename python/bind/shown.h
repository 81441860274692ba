// Shapes and devices for the texts of errors. They are turned into words only when the text is made: the
// arguments of `require` are always evaluated, and the words for a shape cost as much as a small check of
// everything else.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>

#include "tensor/tensor.h"

namespace tachy::python {

template <class What>
struct Shown {
  What what;
};
inline Shown<std::span<const int64_t>> shown(const Tensor& t) { return {t.shape()}; }
inline Shown<std::span<const int64_t>> shown(std::span<const int64_t> dims) { return {dims}; }
inline Shown<Device> shown(Device device) { return {device}; }

inline std::string words_of(std::span<const int64_t> dims) { return shape_string(dims); }
inline std::string words_of(Device device) { return device_name(device); }

}  // namespace tachy::python

template <class What>
struct fmt::formatter<tachy::python::Shown<What>> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const tachy::python::Shown<What>& shown, Context& context) const {
    return fmt::formatter<std::string>::format(tachy::python::words_of(shown.what), context);
  }
};
