// What a pickle builds of the values on its stack (pickle_reader.cpp): storages, tensors and parameters of
// the calls that state dicts know, lists and dicts. A call of anything else is refused by its name.
#pragma once

#include <string>
#include <vector>

#include "tensor/tensor.h"
#include "weights/pickle_globals.h"
#include "weights/pickle_stack.h"
#include "weights/quote.h"

namespace tachy {

class PickleObjects : protected PickleStack {
 protected:
  using PickleStack::PickleStack;

  void push_global(std::string_view module, std::string_view name) {
    std::string full = std::string(module) + '.' + std::string(name);
    check(
        is_known_global(full), ErrorCode::unsupported,
        "{}: byte {}: the pickle names {}, which state dicts do not need; nothing of it was executed. If you "
        "trust the file, save its tensors alone with Python: torch.save(state_dict, path)",
        what_, opcode_at_, in_quotes(full));
    push({.kind = Kind::global, .text = std::move(full)});
  }

  const std::vector<PickleIndex>& tuple_items(PickleIndex index) const {
    need(out_[index].kind == Kind::tuple, "a tuple");
    return out_[index].items;
  }
  int64_t integer(PickleIndex index) const {
    need(out_[index].kind == Kind::integer, "an integer");
    return out_[index].integer;
  }
  std::vector<int64_t> integers(PickleIndex index) const {
    const auto& items = tuple_items(index);
    if (items.size() > kMaxDims)
      bad("a tensor of {} dimensions, at most {} are read", items.size(), kMaxDims);
    std::vector<int64_t> out;
    for (const auto item : items) {
      out.push_back(integer(item));
      need(out.back() >= 0, "extents and strides of at least 0");
    }
    return out;
  }

  // ('storage', torch.FloatStorage, key, location, elements)
  void load_persistent() {
    const auto& id = tuple_items(pop());
    need(id.size() == 5 && out_[id[0]].text == "storage" && out_[id[1]].kind == Kind::global &&
             out_[id[2]].kind == Kind::string,
         "a persistent id ('storage', class, key, location, elements)");
    const auto* storage = find_storage(out_[id[1]].text);
    if (!storage) bad("expected a storage class, got {}", in_quotes(out_[id[1]].text));
    const int64_t count = integer(id[4]);
    need(count >= 0, "a storage of at least 0 elements");
    push({.kind = Kind::storage,
          .dtype = storage->dtype,
          .untyped = storage->untyped,
          .integer = count,
          .text = out_[id[2]].text});
  }

  // (storage, offset, size, stride, requires_grad, hooks[, dtype in v3][, metadata])
  void rebuild_tensor(const std::vector<PickleIndex>& args, bool with_dtype) {
    need(args.size() >= (with_dtype ? 7u : 6u) && args.size() <= (with_dtype ? 8u : 7u) &&
             out_[args[0]].kind == Kind::storage,
         "the arguments of a tensor");
    const auto& storage = out_[args[0]];
    PickleValue tensor{.kind = Kind::tensor,
                       .dtype = storage.dtype,
                       .integer = integer(args[1]),
                       .text = storage.text,
                       .dims = integers(args[2]),
                       .strides = integers(args[3])};
    need(tensor.integer >= 0, "a storage offset of at least 0");
    need(tensor.dims.size() == tensor.strides.size(), "as many strides as extents");
    if (with_dtype) {
      const auto* dtype = out_[args[6]].kind == Kind::global ? find_dtype(out_[args[6]].text) : nullptr;
      need(dtype != nullptr, "a torch dtype");
      tensor.dtype = dtype->dtype;
    } else {
      need(!storage.untyped, "a typed storage");
    }
    push(std::move(tensor));
  }

  void reduce() {
    const auto args = tuple_items(pop());  // a copy: push() below may move the array
    const auto callee = pop();
    need(out_[callee].kind == Kind::global, "a global to call");
    const std::string& name = out_[callee].text;
    if (name == kOrderedDict) {
      need(args.empty(), "OrderedDict without arguments");
      push({.kind = Kind::dict});
    } else if (name == kTensor2) {
      rebuild_tensor(args, false);
    } else if (name == kTensor3) {
      rebuild_tensor(args, true);
    } else if (name == kParameter || name == kParameterState) {
      need(args.size() >= 3 && out_[args[0]].kind == Kind::tensor, "the arguments of a parameter");
      push(args[0]);
    } else {
      bad("{} cannot be called", in_quotes(name));
    }
  }

  // items: taken off the stack already; the list or dict is then on top.
  void append_items(Kind kind, const std::vector<PickleIndex>& items) {
    const PickleIndex target = top();
    need(out_[target].kind == kind, kind == Kind::dict ? "a dict" : "a list");
    need(kind != Kind::dict || items.size() % 2 == 0, "pairs of key and value");
    auto& into = out_.values[target].items;
    into.insert(into.end(), items.begin(), items.end());
  }
};

}  // namespace tachy
