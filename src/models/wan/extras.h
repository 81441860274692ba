// Values that belong to branches of a transformer (branch.h), at most one of each type. A forward pass, a
// prompt's context, or the memory of a video that is made block by block carries them without knowing what
// they are. A branch finds its own value by its type. A type T has
//   static constexpr const char* kName                 the name that messages use
//   std::vector<Tensor> tensors() const              its tensors, whose addresses a captured step depends on
#pragma once

#include <memory>
#include <typeindex>
#include <vector>

#include "tensor/tensor.h"

namespace tachy {

class WanExtras {
 public:
  struct Entry {
    std::type_index type;
    const char* name;
    std::shared_ptr<const void> value;
    std::vector<Tensor> (*tensors)(const void* value);
    bool defined() const;  // whether any of its tensors is defined
  };

  template <class T>
  static WanExtras of(T value) {
    WanExtras out;
    out.put(std::move(value));
    return out;
  }

  // Replaces the value of this type, if there is one.
  template <class T>
  void put(T value) {
    put(std::make_shared<const T>(std::move(value)));
  }
  template <class T>
  void put(std::shared_ptr<const T> value) {
    put_entry({typeid(T), T::kName, std::move(value),
               [](const void* of) { return static_cast<const T*>(of)->tensors(); }});
  }

  // Returns null if there is none. The value keeps its address as long as any copy of this object has it.
  template <class T>
  const T* find() const {
    for (const Entry& entry : entries_)
      if (entry.type == typeid(T)) return static_cast<const T*>(entry.value.get());
    return nullptr;
  }

  void add_missing(const WanExtras& others);  // adds those whose types are missing here
  std::vector<Tensor> tensors() const;        // the tensors of all values
  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }

 private:
  void put_entry(Entry entry);

  std::vector<Entry> entries_;
};

}  // namespace tachy
