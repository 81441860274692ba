#include "support.h"

namespace tachy::test {
namespace {

template <class T>
void expect_ramp(const TensorSource& source, const char* name, DType dtype, std::vector<int64_t> dims) {
  const auto* entry = source.find(name);
  ASSERT_NE(entry, nullptr) << name;
  EXPECT_EQ(entry->dtype, dtype) << name;
  EXPECT_EQ(entry->dims, dims) << name;
  int64_t count = 1;
  for (const auto extent : dims) count *= extent;
  ASSERT_EQ(entry->bytes, static_cast<uint64_t>(count) * sizeof(T)) << name;
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, double>)
      EXPECT_EQ(element<double>(*entry, i), ramp(i)) << name;
    else
      EXPECT_EQ(to_float(element<T>(*entry, i)), ramp(i)) << name << " element " << i;
  }
}

template <class T>
void expect_count_up(const TensorSource& source, const char* name, DType dtype) {
  const auto* entry = source.find(name);
  ASSERT_NE(entry, nullptr) << name;
  EXPECT_EQ(entry->dtype, dtype) << name;
  ASSERT_EQ(entry->bytes, 5 * sizeof(T)) << name;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(element<T>(*entry, i), static_cast<T>(i - 2)) << name;
}

}  // namespace

void expect_all_dtypes(const TensorSource& source) {
  expect_ramp<float>(source, "f32", DType::f32, {2, 3});
  expect_ramp<f16_t>(source, "f16", DType::f16, {7});
  expect_ramp<bf16_t>(source, "bf16", DType::bf16, {3, 1, 5});
  expect_ramp<double>(source, "f64", DType::f64, {3});
  expect_ramp<f8_e4m3_t>(source, "f8_e4m3", DType::f8_e4m3, {9});
  expect_ramp<f8_e5m2_t>(source, "f8_e5m2", DType::f8_e5m2, {9});
  expect_ramp<float>(source, "rank6", DType::f32, {1, 2, 1, 3, 1, 2});
  expect_count_up<int64_t>(source, "i64", DType::i64);
  expect_count_up<int32_t>(source, "i32", DType::i32);
  expect_count_up<int16_t>(source, "i16", DType::i16);
  expect_count_up<int8_t>(source, "i8", DType::i8);
  EXPECT_EQ(element<uint8_t>(*source.find("u8"), 1), 255);
  EXPECT_EQ(source.find("bool")->dtype, DType::boolean);
  EXPECT_EQ(element<uint8_t>(*source.find("bool"), 2), 1);
  EXPECT_EQ(source.find("scalar")->dims, std::vector<int64_t>{1});
  EXPECT_EQ(element<float>(*source.find("scalar"), 0), 3.5f);
  EXPECT_EQ(source.find("empty")->dims, (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(source.find("empty")->bytes, 0u);
}

}  // namespace tachy::test
