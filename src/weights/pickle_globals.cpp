#include "weights/pickle_globals.h"

#include <cstddef>

namespace tachy {
namespace {

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

template <size_t N>
const StorageName* look_up(const StorageName (&table)[N], std::string_view name) {
  for (const auto& item : table) {
    if (item.name == name) return &item;
  }
  return nullptr;
}

}  // namespace

const StorageName* find_storage(std::string_view name) { return look_up(kStorages, name); }
const StorageName* find_dtype(std::string_view name) { return look_up(kDTypeGlobals, name); }

bool is_known_global(std::string_view name) {
  return name == kOrderedDict || name == kTensor2 || name == kTensor3 || name == kParameter ||
         name == kParameterState || find_storage(name) || find_dtype(name);
}

}  // namespace tachy
