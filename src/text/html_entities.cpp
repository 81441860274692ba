#include "text/html_entities.h"

#include <iterator>

namespace tachy::text {

#include "text/html_entities.inc"

const size_t kHtml5EntityCount = std::size(kHtml5Entities);
const size_t kUpperCaseEntityCount = std::size(kUpperCaseEntities);

}  // namespace tachy::text
