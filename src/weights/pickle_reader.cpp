// One loop over opcodes. What state dicts of torch.save use (protocols 2 to 5) is here and nothing else:
// there is no way to reach an import, a constructor or __setstate__, whatever the bytes say.
#include "weights/pickle_reader.h"

#include <cstring>

#include "base/error.h"
#include "tensor/tensor.h"
#include "weights/quote.h"

namespace tachy {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxValues = 4'000'000, kMaxStack = 1'000'000, kMaxMemo = 4'000'000;

struct StorageName {
  std::string_view name;
  DType dtype;
  bool untyped = false;
};
constexpr StorageName kStorages[] = {
    {"torch.FloatStorage", DType::f32},
    {"torch.HalfStorage", DType::f16},
    {"torch.BFloat16Storage", DType::bf16},
    {"torch.DoubleStorage", DType::f64},
    {"torch.LongStorage", DType::i64},
    {"torch.IntStorage", DType::i32},
    {"torch.ShortStorage", DType::i16},
    {"torch.CharStorage", DType::i8},
    {"torch.ByteStorage", DType::u8},
    {"torch.BoolStorage", DType::boolean},
    {"torch.Float8_e4m3fnStorage", DType::f8_e4m3},
    {"torch.Float8_e5m2Storage", DType::f8_e5m2},
    {"torch.storage.UntypedStorage", DType::u8, true},
    {"torch.UntypedStorage", DType::u8, true},
};
constexpr StorageName kDTypeGlobals[] = {
    {"torch.float32", DType::f32},
    {"torch.float16", DType::f16},
    {"torch.bfloat16", DType::bf16},
    {"torch.float64", DType::f64},
    {"torch.int64", DType::i64},
    {"torch.int32", DType::i32},
    {"torch.int16", DType::i16},
    {"torch.int8", DType::i8},
    {"torch.uint8", DType::u8},
    {"torch.bool", DType::boolean},
    {"torch.float8_e4m3fn", DType::f8_e4m3},
    {"torch.float8_e5m2", DType::f8_e5m2},
};
constexpr std::string_view kOrderedDict = "collections.OrderedDict",
                           kTensor2 = "torch._utils._rebuild_tensor_v2",
                           kTensor3 = "torch._utils._rebuild_tensor_v3",
                           kParameter = "torch._utils._rebuild_parameter",
                           kParameterState = "torch._utils._rebuild_parameter_with_state";

template <size_t N>
const StorageName* look_up(const StorageName (&table)[N], std::string_view name) {
  for (const auto& item : table) {
    if (item.name == name) return &item;
  }
  return nullptr;
}

bool is_known_global(std::string_view name) {
  return name == kOrderedDict || name == kTensor2 || name == kTensor3 || name == kParameter ||
         name == kParameterState || look_up(kStorages, name) || look_up(kDTypeGlobals, name);
}

class Interpreter {
 public:
  Interpreter(std::span<const std::byte> bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  Pickle run() {
    for (;;) {
      opcode_at_ = at_;
      const auto op = take<uint8_t>();
      if (op == '.') break;
      step(op);
    }
    out_.root = pop();
    return std::move(out_);
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> text, Args&&... args) const {
    fail(ErrorCode::corrupt, "{}: byte {}: {}", what_, opcode_at_,
         fmt::format(text, std::forward<Args>(args)...));
  }
  void need(bool ok, const char* expected) const {
    if (!ok) [[unlikely]]
      bad("expected {}", expected);
  }

  std::string_view take_text(uint64_t count) {
    need(count <= bytes_.size() - at_, "more bytes before the end of the pickle");
    const std::string_view out(reinterpret_cast<const char*>(bytes_.data()) + at_,
                               static_cast<size_t>(count));
    at_ += count;
    return out;
  }
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_text(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view take_line() {
    const auto rest =
        std::string_view(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
    const auto end = rest.find('\n');
    need(end != rest.npos, "a line end before the end of the pickle");
    at_ += end + 1;
    return rest.substr(0, end);
  }

  void push(PickleIndex index) {
    need(stack_.size() < kMaxStack, "a smaller stack");
    stack_.push_back(index);
  }
  PickleIndex push(PickleValue value) {
    need(out_.values.size() < kMaxValues, "fewer values");
    out_.values.push_back(std::move(value));
    const auto index = static_cast<PickleIndex>(out_.values.size() - 1);
    push(index);
    return index;
  }
  void push_int(int64_t value) { push({.kind = Kind::integer, .integer = value}); }
  void push_bool(bool value) { push({.kind = Kind::boolean, .integer = value}); }
  void push_text(std::string_view text) { push({.kind = Kind::string, .text = std::string(text)}); }

  PickleIndex top() const {
    need(stack_.size() > (marks_.empty() ? 0 : marks_.back()), "a value on the stack");
    return stack_.back();
  }
  PickleIndex pop() {
    const auto index = top();
    stack_.pop_back();
    return index;
  }
  std::vector<PickleIndex> pop_to_mark() {
    need(!marks_.empty(), "a mark on the stack");
    std::vector<PickleIndex> out(stack_.begin() + static_cast<int64_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return out;
  }
  std::vector<PickleIndex> pop_last(size_t count) {
    std::vector<PickleIndex> out(count);
    while (count > 0) out[--count] = pop();
    return out;
  }

  void memoize(uint64_t index) {
    need(index < kMaxMemo, "a smaller memo index");
    if (index >= memo_.size()) memo_.resize(index + 1, kNoValue);
    memo_[index] = top();
  }
  void recall(uint64_t index) {
    need(index < memo_.size() && memo_[index] != kNoValue, "a memo entry that was stored before");
    push(memo_[index]);
  }

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
    const auto* storage = look_up(kStorages, out_[id[1]].text);
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
      const auto* dtype =
          out_[args[6]].kind == Kind::global ? look_up(kDTypeGlobals, out_[args[6]].text) : nullptr;
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

  void append_items(PickleIndex target, Kind kind, const std::vector<PickleIndex>& items) {
    need(out_[target].kind == kind, kind == Kind::dict ? "a dict" : "a list");
    need(kind != Kind::dict || items.size() % 2 == 0, "pairs of key and value");
    auto& into = out_.values[target].items;
    into.insert(into.end(), items.begin(), items.end());
  }

  int64_t take_long(uint64_t count) {
    const auto raw = take_text(count);
    need(count <= 8, "an integer of at most 64 bits");
    if (count == 0) return 0;
    uint64_t value = (static_cast<uint8_t>(raw.back()) & 0x80) ? ~0ull : 0ull;
    for (size_t i = count; i-- > 0;) value = (value << 8) | static_cast<uint8_t>(raw[i]);
    return static_cast<int64_t>(value);
  }

  void step(uint8_t op) {
    switch (op) {
      case 0x80:  // PROTO
        need(take<uint8_t>() <= 5, "pickle protocol 5 or below");
        return;
      case 0x95:  // FRAME
        take<uint64_t>();
        return;
      case '(':
        need(marks_.size() < kMaxStack, "fewer marks");
        return marks_.push_back(stack_.size());
      case 'N':
        push(PickleValue{});
        return;
      case 0x88:
        return push_bool(true);
      case 0x89:
        return push_bool(false);
      case 'J':
        return push_int(take<int32_t>());
      case 'K':
        return push_int(take<uint8_t>());
      case 'M':
        return push_int(take<uint16_t>());
      case 0x8a:
        return push_int(take_long(take<uint8_t>()));
      case 'G':
        take<uint64_t>();
        push({.kind = Kind::real});
        return;  // big-endian; no tensor needs its value
      case 'X':
        return push_text(take_text(take<uint32_t>()));
      case 0x8c:
        return push_text(take_text(take<uint8_t>()));
      case 0x8d:
        return push_text(take_text(take<uint64_t>()));
      case 'q':
        return memoize(take<uint8_t>());
      case 'r':
        return memoize(take<uint32_t>());
      case 0x94:
        return memoize(memo_.size());
      case 'h':
        return recall(take<uint8_t>());
      case 'j':
        return recall(take<uint32_t>());
      case ')':
        push({.kind = Kind::tuple});
        return;
      case 't':
        push({.kind = Kind::tuple, .items = pop_to_mark()});
        return;
      case 0x85:
        push({.kind = Kind::tuple, .items = pop_last(1)});
        return;
      case 0x86:
        push({.kind = Kind::tuple, .items = pop_last(2)});
        return;
      case 0x87:
        push({.kind = Kind::tuple, .items = pop_last(3)});
        return;
      case '}':
        push({.kind = Kind::dict});
        return;
      case ']':
        push({.kind = Kind::list});
        return;
      case 'a': {
        const auto items = pop_last(1);
        return append_items(top(), Kind::list, items);
      }
      case 'e': {
        const auto items = pop_to_mark();
        return append_items(top(), Kind::list, items);
      }
      case 's': {
        const auto items = pop_last(2);
        return append_items(top(), Kind::dict, items);
      }
      case 'u': {
        const auto items = pop_to_mark();
        return append_items(top(), Kind::dict, items);
      }
      case 'c': {
        const auto module = take_line();
        return push_global(module, take_line());
      }
      case 0x93: {  // STACK_GLOBAL
        const auto names = pop_last(2);
        need(out_[names[0]].kind == Kind::string && out_[names[1]].kind == Kind::string, "two strings");
        const std::string module = out_[names[0]].text, name = out_[names[1]].text;
        return push_global(module, name);
      }
      case 'Q':
        return load_persistent();
      case 'R':
        return reduce();
      case 'b':  // BUILD: attributes of a dict (`_metadata`); they hold no tensors
        pop();
        need(out_[top()].kind == Kind::dict, "a dict to set attributes of");
        return;
      default:
        fail(ErrorCode::unsupported,
             "{}: byte {}: pickle opcode 0x{:02x}, which state dicts do not use; nothing was executed", what_,
             opcode_at_, op);
    }
  }

  static constexpr PickleIndex kNoValue = 0xffffffffu;

  std::span<const std::byte> bytes_;
  std::string_view what_;
  uint64_t at_ = 0, opcode_at_ = 0;
  Pickle out_;
  std::vector<PickleIndex> stack_, memo_;
  std::vector<size_t> marks_;
};

}  // namespace

Pickle read_pickle(std::span<const std::byte> bytes, std::string_view what) {
  return Interpreter(bytes, what).run();
}

}  // namespace tachy
