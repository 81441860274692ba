// Builds objects from the values on a pickle's stack (pickle_reader.cpp): lists and dicts, and the storages,
// tensors and parameters that the calls of a state dict make. Any other call makes an opaque value.
#pragma once

#include <string>
#include <vector>

#include "tensor/tensor.h"
#include "weights/quote.h"
#include "weights/torch/pickle_globals.h"
#include "weights/torch/pickle_stack.h"

namespace tachy {

class PickleObjects : protected PickleStack {
 protected:
  using PickleStack::PickleStack;

  void push_global(std::string_view module, std::string_view name) {
    std::string full = std::string(module) + '.' + std::string(name);
    check(!runs_code(full), ErrorCode::unsupported,
          "{}: byte {}: the pickle names {}, which no checkpoint needs and which runs code where it is "
          "loaded; nothing of it was executed here. If you trust the file, save its tensors alone with "
          "Python: torch.save(state_dict, path)",
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
    const std::string& name = out_[id[1]].text;
    const auto* storage = find_storage(name);
    if (!storage && !(name.starts_with("torch.") && name.ends_with("Storage")))
      bad("expected a storage class, got {}", in_quotes(name));
    const int64_t count = integer(id[4]);
    need(count >= 0, "a storage of at least 0 elements");
    push({.kind = Kind::storage,
          .dtype = storage ? storage->dtype : DType::u8,
          .untyped = storage && storage->untyped,
          .integer = count,
          .text = out_[id[2]].text,
          .unread = storage ? "" : name});
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
                       .strides = integers(args[3]),
                       .unread = storage.unread};
    need(tensor.integer >= 0, "a storage offset of at least 0");
    need(tensor.dims.size() == tensor.strides.size(), "as many strides as extents");
    if (with_dtype) {
      need(out_[args[6]].kind == Kind::global && out_[args[6]].text.starts_with("torch."), "a torch dtype");
      const auto* dtype = find_dtype(out_[args[6]].text);
      tensor.dtype = dtype ? dtype->dtype : DType::u8;
      if (!dtype) tensor.unread = out_[args[6]].text;
    } else {
      need(!storage.untyped, "a typed storage");
    }
    push(std::move(tensor));
  }

  void push_opaque(std::string_view name) { push({.kind = Kind::opaque, .text = std::string(name)}); }

  // REDUCE calls callee(*args).
  void reduce() {
    const auto args = tuple_items(pop());  // a copy: push() below may move the array
    const auto callee = pop();
    need(out_[callee].kind == Kind::global || out_[callee].kind == Kind::opaque,
         "a class or a function to call");
    call(out_[callee].text, args);
  }

  void call(const std::string& callee, const std::vector<PickleIndex>& args) {
    const std::string name = callee;  // a copy, too
    if ((name == kOrderedDict && args.empty()) || name == kDefaultDict) {
      push({.kind = Kind::dict});
    } else if (name == kTensor2) {
      rebuild_tensor(args, false);
    } else if (name == kTensor3) {
      rebuild_tensor(args, true);
    } else if (name == kParameter || name == kParameterState) {
      need(args.size() >= 3, "the arguments of a parameter");
      push(args[0]);
    } else if (name == kTypedTensor) {
      rebuild_typed(args);
    } else {
      push_opaque(name);
    }
  }

  // (function, class, its arguments, state): a tensor of a special class, which becomes a plain tensor if
  // plain values rebuild it.
  void rebuild_typed(const std::vector<PickleIndex>& args) {
    need(args.size() == 4 && out_[args[0]].kind == Kind::global, "the arguments of a typed tensor");
    const std::string& function = out_[args[0]].text;
    if (function == kTensor2 || function == kTensor3)
      rebuild_tensor(tuple_items(args[2]), function == kTensor3);
    else
      push_opaque(function);
  }

  // NEWOBJ and NEWOBJ_EX call class.__new__(class, *args). No class is known here.
  void make_object(bool with_keywords) {
    if (with_keywords) pop();
    tuple_items(pop());
    const auto type = pop();
    need(out_[type].kind == Kind::global || out_[type].kind == Kind::opaque, "a class of an object");
    const std::string name = out_[type].text;
    push_opaque(name);
  }

  // BUILD sets attributes: `_metadata` of a state dict, or those of an object. No tensor in them is wanted.
  void set_attributes() {
    pop();
    const Kind kind = out_[top()].kind;
    need(kind == Kind::dict || kind == Kind::opaque || kind == Kind::tensor,
         "an object to set attributes of");
  }

  // Adds `items`, which are no longer on the stack; the list or dict is then on top of it.
  void append_items(Kind kind, const std::vector<PickleIndex>& items) {
    const PickleIndex target = top();
    need(kind != Kind::dict || items.size() % 2 == 0, "pairs of key and value");
    if (out_[target].kind == Kind::opaque) {
      if (kind == Kind::list) return;
      // an object of another class that is filled like a dict is treated as one
      out_.values[target].kind = Kind::dict;
    }
    need(out_[target].kind == kind, kind == Kind::dict ? "a dict" : "a list");
    auto& into = out_.values[target].items;
    into.insert(into.end(), items.begin(), items.end());
  }
};

}  // namespace tachy
