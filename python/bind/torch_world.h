// What the functions in C in front of eager calls (front.cpp) use of torch's Python side, given once by tachyscope/_torch.py, and the
// few words of Python's C interface that they say it in.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

#include "bind/dlpack.h"

namespace tachy::python {

// All references are kept for as long as the process lives.
struct World {
  PyObject *tensor = nullptr, *parameter = nullptr;  // the two types whose objects are plain tensors
  const dlpack::Exchange* exchange = nullptr;
  std::vector<PyObject*> watchers;    // functions without arguments: where one is not false, no call is plain
  PyObject* forward_ad = nullptr;     // a module, whose _current_level is −1 where nobody asks for tangents
  PyObject* profiler = nullptr;       // a module, whose _is_profiler_enabled is kept for fast questions
  PyObject* grad_enabled = nullptr;   // a function without arguments
  PyObject* is_negated = nullptr;     // of a tensor: its values are those in memory times −1
  PyObject* empty_like = nullptr;     // of a tensor
  PyObject* empty_strided = nullptr;  // of a tensor, dims, strides
  PyObject* dtypes[4] = {};           // f32, f16, bf16, f64
  PyObject *level_word = nullptr, *profiled_word = nullptr, *requires_word = nullptr, *dtype_words = nullptr;
};

// Throws Error where torch has not been given.
const World& world();
// `torch`: what of it is used, by names of our own.
void use_torch(const nanobind::dict& torch);

class Reference {  // to an object, ours to let go of
 public:
  explicit Reference(PyObject* object = nullptr) : object_(object) {}
  Reference(Reference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Reference& operator=(Reference&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Reference() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

// Python has an exception; it goes on as that one.
struct Raised {};

// Whether an answer, which is let go of, is true. Throws Raised where there is none.
bool truth(PyObject* answer);

// Whether somebody watches or changes what is called: then only torch's dispatcher knows what is to happen.
bool watched();

PyObject* kept(nanobind::handle object);

}  // namespace tachy::python
