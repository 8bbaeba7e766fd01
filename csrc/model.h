// The weights of a model: checked, and for the most part left where they are (in a memory-mapped file).
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "buffer.h"
#include "kit.h"

namespace recoversat {

// The weights are not those of the model that was described, or damaged.
struct ModelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Tensor {
  enum Type { F32, I8, U8 } type;
  std::vector<int64_t> shape;
  const void* data;
};

using Tensors = std::map<std::string, Tensor>;

struct Sizes {
  int d, hidden, heads, encoder_layers, decoder_layers, pieces, segments;  // pieces: the padded vocabulary
};

// A linear map with the memory for what is computed when it is made.
struct OwnedLinear : Linear {
  Buffer<int8_t> packed;
  Buffer<float> scales, biases;
  Buffer<int32_t> starts;

  // Make room for `outputs` columns, and for their weights if they are packed here.
  void reserve(int inputs, int outputs, bool own_weights, bool own_bias);
};

struct Norm {
  const float *weight, *bias;
};

struct Layer {
  Norm attention_norm, cross_norm, feed_forward_norm;
  OwnedLinear qkv, output, cross_query, cross_output, inner, outer;
};

class Model {
 public:
  // Tensors have to stay where they are as long as the model.
  Model(const Kit& kit, const Sizes& sizes, const Tensors& tensors);

  const Kit& kit;
  const Sizes sizes;
  std::vector<Layer> encoder, decoder;
  Norm encoder_norm, decoder_norm;
  OwnedLinear memory, vocabulary;
  const int8_t* embedding;  // (P, D)
  const float *embedding_scale, *segment_embedding;

  void check_ids(const std::vector<int32_t>& ids) const;
  void check_segments(int count) const;

 private:
  const Tensors& tensors_;
  Buffer<uint8_t> ones_;

  template <class T>
  const T* take(const std::string& name, std::vector<int64_t> shape);
  Rounding rounding(const std::string& name, float& step);
  Norm norm(const std::string& name);
  void linear(OwnedLinear& to, const std::string& name, int in, int out);
  void set_sums(OwnedLinear& map, const float* weight_scale, float step);
  void read_layer(const std::string& side, int index, Layer& layer);
  void check_no_layer(const std::string& side, int index) const;
  void pack_vocabulary();
};

}  // namespace recoversat
