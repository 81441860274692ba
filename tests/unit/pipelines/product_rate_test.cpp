// The products that are timed for an estimate are those that the layers will run.
#include "session/product_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/pick_record.h"

namespace tachy {
namespace {

TEST(ProductRate, TimesTheProductsThatLayersRun) {
  ThreadPool pool(2);
  for (const auto& [products, expected] :
       {std::pair{Products::as_activations, std::vector<std::string>{"gemm"}},
        {Products::int8, {"quantize", "scaled_gemm"}}}) {
    ops::PickRecord record;
    EXPECT_GT(cpu_products_per_second(pool, {.products = products}, {.picks = &record}), 1e6);
    std::vector<std::string> ops;
    for (const ops::OpPick& pick : record.picks()) ops.push_back(pick.op);
    EXPECT_THAT(ops, testing::UnorderedElementsAreArray(expected));
  }
}

}  // namespace
}  // namespace tachy
