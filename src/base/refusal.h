// The reason why an implementation does not take a call: a value that code can branch on, with words for
// people. Making one costs nothing if the words are a literal: choosing an implementation makes some for
// every call of an op.
#pragma once

#include <string>
#include <utility>

namespace tachy {

struct Refusal {
  enum class Why {
    arguments,     // it has no code for these shapes, dtypes, strides or options
    settings,      // another precision, level or implementation was asked for
    slower,        // it could, but another is as fast or faster for this shape
    other_device,  // it is for tensors on another device
    not_built,     // this build lacks it
    machine,       // another kind of CPU or GPU, or a driver without what it needs
    weak_gpu,      // the GPU is older or smaller than our kernels need: worth a line even if nobody asks
    library,       // a vendor library is missing or has nothing for this call
  };
  Why why;
  const char* words;
  std::string more = {};  // follows the words, if they depend on the call

  std::string text() const { return words + more; }

  static Refusal arguments(const char* words, std::string more = {}) {
    return {Why::arguments, words, std::move(more)};
  }
  static Refusal settings(const char* words) { return {Why::settings, words}; }
  static Refusal slower(const char* words, std::string more = {}) {
    return {Why::slower, words, std::move(more)};
  }
  static Refusal machine(const char* words, std::string more = {}) {
    return {Why::machine, words, std::move(more)};
  }
  static Refusal weak_gpu(const char* words, std::string more = {}) {
    return {Why::weak_gpu, words, std::move(more)};
  }
  static Refusal library(std::string words) { return {Why::library, "", std::move(words)}; }
};

}  // namespace tachy
