// A loop over opcodes. It knows only those that torch.save uses (protocols 2 to 5). An import becomes a text,
// constructors and __setstate__ are skipped, and no bytes can call one.
#include "weights/torch/pickle_reader.h"

#include "base/error.h"
#include "weights/torch/pickle_objects.h"

namespace tachy {
namespace {

class Interpreter : PickleObjects {
 public:
  Interpreter(std::span<const std::byte> bytes, std::string_view what) : PickleObjects(bytes, what) {}

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
  void step(uint8_t op) {
    if (push_value(op) || push_bytes(op) || use_memo(op) || build(op)) return;
    switch (op) {
      case 0x80:  // PROTO
        need(take<uint8_t>() <= 5, "pickle protocol 5 or below");
        return;
      case 0x95:  // FRAME
        take<uint64_t>();
        return;
      case '(':
        return push_mark();
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
      case 'b':  // BUILD
        return set_attributes();
      case 0x81:  // NEWOBJ
      case 0x92:  // NEWOBJ_EX
        return make_object(op == 0x92);
      default:
        fail(ErrorCode::unsupported,
             "{}: byte {}: pickle opcode 0x{:02x}, which state dicts do not use; nothing was executed", what_,
             opcode_at_, op);
    }
  }

  // Runs the opcodes that push a plain value. Returns whether this is one of them.
  bool push_value(uint8_t op) {
    switch (op) {
      case 'N':
        push(PickleValue{});
        return true;
      case 0x88:
      case 0x89:
        push_bool(op == 0x88);
        return true;
      case 'J':
        push_int(take<int32_t>());
        return true;
      case 'K':
        push_int(take<uint8_t>());
        return true;
      case 'M':
        push_int(take<uint16_t>());
        return true;
      case 0x8a:
        push_long(take<uint8_t>());
        return true;
      case 0x8b:
        push_long(take<uint32_t>());
        return true;
      case 'G':
        take<uint64_t>();
        push({.kind = Kind::real});
        return true;  // a big-endian number whose value no tensor needs
      case 'X':
        push_text(take_text(take<uint32_t>()));
        return true;
      case 0x8c:
        push_text(take_text(take<uint8_t>()));
        return true;
      case 0x8d:
        push_text(take_text(take<uint64_t>()));
        return true;
      default:
        return false;
    }
  }

  // Integers of more than 64 bits belong to states of random generators, which are not needed here.
  void push_long(uint64_t bytes) {
    if (bytes <= 8) return push_int(take_long(bytes));
    take_text(bytes);
    push_opaque("");
  }

  // Reads bytes, which are never a tensor's name or shape, and texts of Python 2.
  bool push_bytes(uint8_t op) {
    switch (op) {
      case 'U':
        push_text(take_text(take<uint8_t>()));
        return true;
      case 'T':
        push_text(take_text(take<uint32_t>()));
        return true;
      case 'C':
        take_text(take<uint8_t>());
        break;
      case 'B':
        take_text(take<uint32_t>());
        break;
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        take_text(take<uint64_t>());
        break;
      default:
        return false;
    }
    push_opaque("");
    return true;
  }

  bool use_memo(uint8_t op) {
    switch (op) {
      case '0':
        pop();
        return true;
      case '1':
        pop_to_mark();
        return true;
      case '2':
        push(top());
        return true;
      case 'q':
        memoize(take<uint8_t>());
        return true;
      case 'r':
        memoize(take<uint32_t>());
        return true;
      case 0x94:
        memoize(memo_.size());
        return true;
      case 'h':
        recall(take<uint8_t>());
        return true;
      case 'j':
        recall(take<uint32_t>());
        return true;
      default:
        return false;
    }
  }

  // Makes tuples, lists and dicts, or adds items to them.
  bool build(uint8_t op) {
    switch (op) {
      case ')':
        push({.kind = Kind::tuple});
        return true;
      case 't':
        push({.kind = Kind::tuple, .items = pop_to_mark()});
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push({.kind = Kind::tuple, .items = pop_last(op - 0x84u)});
        return true;
      case '}':
        push({.kind = Kind::dict});
        return true;
      case ']':
        push({.kind = Kind::list});
        return true;
      case 0x8f:  // EMPTY_SET
        push_opaque("");
        return true;
      case 0x90:  // ADDITEMS, to a set
        append_items(Kind::list, pop_to_mark());
        return true;
      case 0x91:  // FROZENSET
        pop_to_mark();
        push_opaque("");
        return true;
      case 'a':
        append_items(Kind::list, pop_last(1));
        return true;
      case 'e':
        append_items(Kind::list, pop_to_mark());
        return true;
      case 's':
        append_items(Kind::dict, pop_last(2));
        return true;
      case 'u':
        append_items(Kind::dict, pop_to_mark());
        return true;
      default:
        return false;
    }
  }
};

}  // namespace

Pickle read_pickle(std::span<const std::byte> bytes, std::string_view what) {
  return Interpreter(bytes, what).run();
}

}  // namespace tachy
