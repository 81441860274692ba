#include "bind/torch_world.h"

#include <memory>

#include "bind/exchange.h"
#include "bind/torch_abi.h"

namespace tachy::python {
namespace {

World* g_world = nullptr;

}  // namespace

const World& world() {
  check(g_world != nullptr, ErrorCode::internal, "torch has not been given");
  return *g_world;
}

bool truth(PyObject* answer) {
  const Reference held(answer);
  if (!answer) throw Raised();
  if (answer == Py_False || answer == Py_None) return false;
  const int is = PyObject_IsTrue(answer);
  if (is < 0) throw Raised();
  return is != 0;
}

bool watched(bool by_autocast) {
  const World& world = *g_world;
  if (by_autocast && truth(PyObject_CallNoArgs(world.autocast))) return true;
  for (PyObject* watcher : world.watchers)
    if (truth(PyObject_CallNoArgs(watcher))) return true;
  if (truth(PyObject_GetAttr(world.profiler, world.profiled_word))) return true;
  const Reference level(PyObject_GetAttr(world.forward_ad, world.level_word));
  if (!level) throw Raised();
  return PyLong_AsLong(level.get()) >= 0;
}

PyObject* kept(nb::handle object) { return nb::borrow(object).release().ptr(); }

// `torch` has the objects that are used, under names of our own.
void use_torch(const nb::dict& torch) {
  auto world = std::make_unique<World>();
  const auto get = [&](const char* name) { return kept(torch[name]); };
  world->tensor = get("tensor"), world->parameter = get("parameter");
  world->exchange = exchange_of_type(world->tensor);
  check(world->exchange != nullptr, ErrorCode::unsupported,
        "torch: expected tensors with DLPack's exchange table");
  for (const nb::handle watcher : nb::tuple(torch["watchers"])) world->watchers.push_back(kept(watcher));
  world->autocast = get("autocast");
  world->forward_ad = get("forward_ad"), world->profiler = get("profiler");
  world->grad_enabled = get("grad_enabled");
  world->is_negated = get("is_negated");
  world->empty_like = get("empty_like"), world->empty_strided = get("empty_strided");
  const nb::tuple dtypes(torch["dtypes"]);
  for (size_t i = 0; i < std::size(world->dtypes); ++i) world->dtypes[i] = kept(dtypes[i]);
  world->level_word = PyUnicode_InternFromString("_current_level");
  world->profiled_word = PyUnicode_InternFromString("_is_profiler_enabled");
  world->requires_word = PyUnicode_InternFromString("requires_grad");
  world->dtype_words = kept(nb::make_tuple("dtype"));
  torch_abi::functions();  // throws if this torch cannot be used
  g_world = world.release();
}

}  // namespace tachy::python
