// The reason why an implementation cannot take a call: a value for code and words for people. Because
// choosing an implementation makes some for every call of an op, making one costs nothing if the words are a
// literal.
#pragma once

#include <string>
#include <utility>

namespace tachy {

struct Refusal {
  enum class Why {
    arguments,     // there is no code for these shapes, dtypes, strides or options
    settings,      // another precision, level or implementation was asked for
    slower,        // it can, but another is as fast or faster for this shape
    other_device,  // it is for tensors on another device
    not_built,     // this build does not contain it
    machine,       // the machine has another kind of CPU or GPU, or its driver is too old
    weak_gpu,      // the GPU is older or smaller than our kernels need; this is reported even if nobody asks
    library,       // a vendor library is missing or has nothing for this call
  };
  Why why;
  const char* words;
  std::string more = {};  // follows the words with details of the call

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
