// Small models with random weights, which are the same on every machine: only exactly rounded operations make them.
#pragma once

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "../decode.h"
#include "../model.h"

namespace recoversat {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }

  int between(int least, int most) { return least + int(next() % uint64_t(most - least + 1)); }
  float between(float least, float most) { return least + (most - least) * (float(next() >> 40) / 16777216.0f); }

 private:
  uint64_t state_;
};

// The tensors of a model, each in memory of exactly its size, so that a sanitizer sees what is read behind it.
class RandomModel {
 public:
  static constexpr int MAX_POSITIONS = 80, PADDING = 19;

  RandomModel(const Sizes& of, uint64_t seed) : sizes(of), random_(seed) {
    for (int i = 0; i < sizes.encoder_layers; ++i) add_layer("encoder", i);
    for (int i = 0; i < sizes.decoder_layers; ++i) add_layer("decoder", i);
    add_norm("encoder.norm"), add_norm("decoder.norm");
    add_linear("memory", sizes.d, 2 * sizes.d * sizes.decoder_layers);
    add_floats("segment_embedding", {sizes.segments, sizes.d}, -3, 3);
    add_weights("embedding.weight", {sizes.pieces, sizes.d});
    add_scales("embedding.scale", sizes.pieces, sizes.d, 0.7f);  // larger, and each token would choose itself
    add_rounding("embedding");
    positions.resize(size_t(MAX_POSITIONS) * sizes.d);
    for (float& value : positions) value = random_.between(-3.0f, 3.0f);
    make_biases();
  }

  float* floats(const std::string& name) const {
    return static_cast<float*>(const_cast<void*>(tensors.at(name).data));
  }

  const Sizes sizes;
  Tensors tensors;
  std::vector<float> positions, bias, first_bias;

 private:
  Random random_;
  std::vector<std::unique_ptr<void, decltype(&std::free)>> memory_;

  template <class T>
  T* add(const std::string& name, Tensor::Type type, const std::vector<int64_t>& shape) {
    size_t count = 1;
    for (const int64_t size : shape) count *= size_t(size);
    void* memory = nullptr;
    if (posix_memalign(&memory, CACHE_LINE, count * sizeof(T))) throw std::bad_alloc();
    memory_.emplace_back(memory, &std::free);
    tensors[name] = {type, shape, memory};
    return static_cast<T*>(memory);
  }

  void add_floats(const std::string& name, const std::vector<int64_t>& shape, float least, float most) {
    float* values = add<float>(name, Tensor::F32, shape);
    size_t count = 1;
    for (const int64_t size : shape) count *= size_t(size);
    for (size_t i = 0; i < count; ++i) values[i] = random_.between(least, most);
  }

  void add_weights(const std::string& name, const std::vector<int64_t>& shape) {
    size_t count = 1;
    for (const int64_t size : shape) count *= size_t(size);
    int8_t* values = add<int8_t>(name, Tensor::I8, shape);
    for (size_t i = 0; i < count; ++i) values[i] = int8_t(random_.between(-128, 127));
  }

  // Scales with which inputs that deviate by 1 become outputs that deviate by about `spread`.
  void add_scales(const std::string& name, int out, int in, float spread) {
    const float usual = spread / (73 * std::sqrt(float(in)));
    add_floats(name, {out}, 0.8f * usual, 1.2f * usual);
  }

  void add_rounding(const std::string& name) {
    *add<float>(name + ".step", Tensor::F32, {1}) = random_.between(0.02f, 0.04f);
    *add<uint8_t>(name + ".zero", Tensor::U8, {1}) = uint8_t(random_.between(100, 150));
  }

  void add_linear(const std::string& name, int in, int out) {
    add_weights(name + ".weight", {out / LANES, in / GROUP, LANES, GROUP});
    add_scales(name + ".scale", out, in, 4);  // smaller, and all sentences would be alike
    add_floats(name + ".bias", {out}, -0.3f, 0.3f);
    add_rounding(name);
  }

  void add_norm(const std::string& name) {
    add_floats(name + ".weight", {sizes.d}, 0.7f, 1.3f);
    add_floats(name + ".bias", {sizes.d}, -0.3f, 0.3f);
  }

  void add_layer(const std::string& side, int index) {
    const std::string name = side + ".layers." + std::to_string(index) + ".";
    const int d = sizes.d;
    add_norm(name + "attention_norm");
    add_linear(name + "self_attention.qkv", d, 3 * d);
    add_linear(name + "self_attention.output", d, d);
    if (side == "decoder") {
      add_norm(name + "cross_norm");
      add_linear(name + "cross_attention.query", d, d);
      add_linear(name + "cross_attention.output", d, d);
    }
    add_norm(name + "feed_forward_norm");
    add_linear(name + "feed_forward.inner", d, sizes.hidden);
    add_linear(name + "feed_forward.outer", sizes.hidden, d);
  }

  // Terminators are likely enough for segments to end at different steps; the first step may not choose all pieces. The
  // last pieces are padding of the vocabulary.
  void make_biases() {
    const float never = -std::numeric_limits<float>::infinity();
    bias.assign(sizes.pieces, 0);
    bias[PAD] = bias[BOS] = never;
    for (int piece = EOS; piece <= LAST_TERMINATOR; ++piece) bias[piece] = 0.6f;
    for (int piece = sizes.pieces - PADDING; piece < sizes.pieces; ++piece) bias[piece] = never;
    first_bias = bias;
    for (int piece = 0; piece < sizes.pieces; piece += 3) first_bias[piece] = never;
  }
};

}  // namespace recoversat
