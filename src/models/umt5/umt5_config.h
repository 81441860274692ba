// Options of a umT5 encoder, from the config.json of Hugging Face's UMT5EncoderModel. The original Wan layout
// and single files have no config.json, so the options follow from the tensors.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "weights/tensor_source.h"

namespace tachy {

struct Umt5Config {
  int64_t vocab_size = 256384;
  int64_t d_model = 4096;
  int64_t d_kv = 64;  // per head; heads · d_kv need not equal d_model
  int64_t d_ff = 10240;
  int64_t num_layers = 24;
  int64_t num_heads = 64;
  int64_t num_buckets = 32;
  int64_t max_distance = 128;
  float eps = 1e-6f;

  static Umt5Config from_json(const nlohmann::json& config);
  // Finds the options by the tensors' shapes, under Hugging Face's names. Throws `not_found` if the file
  // contains no umT5 encoder.
  static Umt5Config from_tensors(const TensorSource& source);
};

// Recognises a umT5 encoder by its position biases: each of its blocks has them, but only the first block of
// a T5 encoder does.
bool is_umt5_encoder(const TensorSource& source);

}  // namespace tachy
