// Tests Scope: shapes, missing and unused tensors by name, unaligned data.
#include "weights/scope.h"

#include "support.h"

namespace tachy::test {
namespace {

std::string one_tensor_header(size_t padding) {
  std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header.append(padding, ' ');
  return header;
}

TEST(Scope, ReadsByJoinedNames) {
  const auto source = open_weights(golden("sharded"));
  const Scope root(source);
  const Scope a = root.sub("a");
  EXPECT_EQ(a.prefix(), "a.");
  EXPECT_EQ(root.sub("blocks").sub(3).prefix(), "blocks.3.");
  const Tensor w = a.tensor("weight", {2, 2});
  EXPECT_TRUE(w.contiguous());
  EXPECT_EQ(w.as<float>()[3], ramp(3));
  EXPECT_EQ(w.data, source->find("a.weight")->data);  // a view, not a copy
  EXPECT_EQ(a.tensor("weight", {-1, 2}).dim(0), 2);
  EXPECT_EQ(Scope(source, "b").tensor("weight", {4}).dtype, DType::bf16);
  EXPECT_FALSE(a.optional("bias", {2}).has_value());
  EXPECT_TRUE(a.optional("weight", {2, 2}).has_value());
  EXPECT_EQ(a.missing(std::vector<std::string>{"weight", "bias"}), std::vector<std::string>{"a.bias"});
  EXPECT_EQ(root.mapped_bytes(), source->mapped_bytes());
  EXPECT_GT(root.mapped_bytes(), 0u);
}

TEST(Scope, WrongShapeNamesTensorShapesAndFile) {
  const Scope root(open_weights(golden("sharded")));
  const auto read = [&] { root.tensor("a.weight", {2, 3}); };
  expect_error(ErrorCode::corrupt, "a.weight", read);
  expect_error(ErrorCode::corrupt, "expected shape [2, 3], got [2, 2]", read);
  expect_error(ErrorCode::corrupt, "model-00001-of-00002.safetensors", read);
  expect_error(ErrorCode::corrupt, "expected shape [4]", [&] { root.tensor("a.weight", {4}); });
  expect_error(ErrorCode::corrupt, "expected shape [2, 3]", [&] { root.optional("a.weight", {2, 3}); });
}

TEST(Scope, MissingThrowsAtOnceByDefault) {
  const Scope root(open_weights(golden("sharded")));
  expect_error(ErrorCode::not_found, "a.bias", [&] { root.sub("a").tensor("bias", {2}); });
}

TEST(Scope, LoadComponentListsAllMissing) {
  const auto source = open_weights(golden("dtypes.safetensors"));
  const auto load = [&](int count) {
    return load_component(source, "transformer", {""}, [&](const Scope& s) {
      s.tensor("f32", {2, 3});
      for (int i = 0; i < count; ++i) {
        const Tensor t = s.sub("gone").tensor(std::to_string(100 + i), {1000, 1000});
        EXPECT_EQ(t.as<float>()[999999], 0.f);  // constructors may read the values
      }
      return 7;
    });
  };
  EXPECT_EQ(load(0), 7);
  expect_error(ErrorCode::not_found, "transformer: 3 tensors missing from", [&] { load(3); });
  expect_error(ErrorCode::not_found, "gone.100, gone.101, gone.102", [&] { load(3); });
  expect_error(ErrorCode::not_found, "dtypes.safetensors", [&] { load(3); });
  expect_error(ErrorCode::not_found, "gone.119 +5 more; the file is not complete, or the config",
               [&] { load(25); });
  expect_error(ErrorCode::not_found, "256 tensors missing", [&] { load(100000); });
}

TEST(Scope, UnusedTensorsAreWarnedOfByName) {
  const auto source = open_weights(golden("dtypes.safetensors"));
  const auto warning = [&](const std::vector<std::string>& ignorable) {
    testing::internal::CaptureStderr();
    load_component(source, "unused-test-" + std::to_string(ignorable.size()), ignorable, [](const Scope& s) {
      return s.tensor("bf16", {3, 1, 5}).rank;
    });
    return testing::internal::GetCapturedStderr();
  };
  const std::string all = warning({});
  EXPECT_THAT(all, testing::HasSubstr("14 tensors"));
  EXPECT_THAT(all, testing::HasSubstr("+6 more"));
  EXPECT_THAT(all, testing::HasSubstr("bool, empty, f16"));
  EXPECT_THAT(all, testing::Not(testing::HasSubstr("bf16")));
  const std::string some = warning({"f", "i", "u8", "bool", "empty", "rank6"});
  EXPECT_THAT(some, testing::HasSubstr("1 tensor "));
  EXPECT_THAT(some, testing::HasSubstr("scalar"));
  EXPECT_EQ(warning({"f", "i", "u8", "bool", "empty", "rank6", "scalar"}), "");
}

TEST(Scope, UnalignedTensorsAreCopiedOnce) {
  const TempFolder folder;
  const float values[2] = {1.5f, -2.5f};
  const std::string data(reinterpret_cast<const char*>(values), 8);
  for (int pad = 0; pad < 8; ++pad) {
    const std::string header = one_tensor_header(static_cast<size_t>(pad));
    const auto path =
        write_bytes(folder / ("pad" + std::to_string(pad) + ".safetensors"), safetensors_bytes(header, data));
    const Scope scope(open_weights(path));
    const bool aligned = header.size() % 4 == 0;
    const Tensor t = scope.tensor("a", {2});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data) % 4, 0u);
    EXPECT_EQ(t.as<float>()[0], 1.5f);
    EXPECT_EQ(t.as<float>()[1], -2.5f);
    EXPECT_EQ(scope.tensor("a", {2}).data, t.data);
    EXPECT_EQ(scope.copied_bytes(), aligned ? 0u : 256u) << pad;
  }
}

TEST(Scope, KeepOwnsTheMapping) {
  std::shared_ptr<const void> keep;
  Tensor t;
  {
    const Scope scope(open_weights(golden("dtypes.safetensors")));
    t = scope.tensor("f32", {2, 3});
    keep = scope.keep();
  }
  EXPECT_EQ(t.as<float>()[0], ramp(0));
}

// A tensor whose row r holds 1000r, 1000r + 1 …
class Counting final : public DerivedTensor {
 public:
  std::string_view encoding() const override { return "counting"; }
  void decode(int64_t first, const Tensor& rows) const override {
    for (int64_t r = 0; r < rows.dim(0); ++r)
      for (int64_t c = 0; c < rows.dim(1); ++c)
        rows.as<float>()[r * rows.dim(1) + c] = static_cast<float>(1000 * (first + r) + c);
    ++*decoded;
  }
  std::shared_ptr<int> decoded = std::make_shared<int>(0);
};

TEST(Scope, MakesDerivedTensorsOnceAndCountsThem) {
  const auto counting = std::make_shared<Counting>();
  const auto source = [&](DType dtype) {
    return std::make_shared<TensorSource>(
        std::vector<TensorSource::Entry>{
            {.name = "w", .name_in_file = "w", .dtype = dtype, .dims = {3, 2, 40}, .derived = counting}},
        std::vector<std::shared_ptr<const MappedFile>>{});
  };
  const Scope exact(source(DType::f32));
  const Tensor w = exact.tensor("w", {3, 2, 40});
  EXPECT_EQ(w.as<float>()[2 * 80 + 41], 2041.f);
  const int decoded = *counting->decoded;
  EXPECT_EQ(exact.tensor("w", {3, 2, 40}).data, w.data);
  EXPECT_EQ(*counting->decoded, decoded);
  EXPECT_EQ(exact.copied_bytes(), 1024u);  // this is 960 bytes, aligned

  const Scope rounded(source(DType::bf16));
  const Tensor low = rounded.tensor("w", {3, -1, 40});
  EXPECT_EQ(low.dtype, DType::bf16);
  EXPECT_EQ(to_float(low.as<bf16_t>()[2 * 80 + 41]), 2040.f);  // rounded to bfloat16's eight bits
  const std::vector<int64_t> dims = {3, 2, 40};
  EXPECT_EQ(rounded.derived("w", dims), counting);
  EXPECT_EQ(rounded.derived("v", dims), nullptr);
  expect_error(ErrorCode::corrupt, "expected shape [3, 80]", [&] { rounded.tensor("w", {3, 80}); });

  const int before = *counting->decoded;
  const Scope planned(source(DType::f32), "", Scope::Missing::collect, true);
  EXPECT_EQ(planned.tensor("w", {3, 2, 40}).as<float>()[200], 0.f);
  EXPECT_EQ(planned.tensor("w", {3, 2, 40}).as<float>()[200], 0.f);  // the tensor is counted once, even if it
                                                                     // is read again
  EXPECT_EQ(planned.copied_bytes(), 1024u);
  EXPECT_EQ(*counting->decoded, before);
}

}  // namespace
}  // namespace tachy::test
