// The encoder and decoder layers, over rows of several sentences side by side. Nothing that is computed for a row depends
// on the rows of other sentences.
#pragma once

#include <memory>
#include <vector>

#include "buffer.h"
#include "model.h"

namespace recoversat {

// Keys and values of one layer (see CacheView).
class LayerCache {
 public:
  int positions = 0;

  void reserve(int d, size_t positions);
  void copy(const LayerCache& other);
  Slot slot(int position) const;
  CacheView view() const { return {keys_.get(), values_.get(), d_, positions}; }
  int d() const { return d_; }
  size_t bytes() const { return keys_.bytes() + values_.bytes(); }

  // Return the bytes that so many positions need, with what growing may add.
  static size_t bytes_for(int d, size_t positions);

 private:
  Buffer<float> keys_, values_;
  int d_ = 0;
};

// Keys and values of a sentence for every decoder layer: of its source, or of its translation so far.
struct KVCache {
  std::vector<LayerCache> layers;

  KVCache() = default;
  explicit KVCache(const Model& model) : layers(model.decoder.size()) {}
  KVCache(KVCache&&) = default;
  KVCache& operator=(KVCache&&) = default;
  int positions() const { return layers.front().positions; }
  void truncate(int positions);
  void copy(const KVCache& other);

  // Say whether rows of this model can be written here, or attended to.
  bool is_for(const Model& model) const;
  bool fits(const Model& model) const { return is_for(model) && positions() > 0; }
  size_t bytes() const;
};

// A source sentence and where its keys and values go.
struct EncoderInput {
  const std::vector<int32_t>* tokens;
  KVCache* cache;
};

// New rows of a sentence for the decoder: `n` tokens, each of its segment.
struct DecoderInput {
  const KVCache* source;
  KVCache* written;
  const int32_t *tokens, *segments;
  int n;
  const float* position;  // of the first row
};

// The layers with the memory that a thread needs for them; it grows with the number of rows.
class Transformer {
 public:
  explicit Transformer(const Model& model);

  const Model& model;

  // Compute the keys and values of sources. Positions are (n, D).
  void encode(const std::vector<EncoderInput>& inputs, const float* positions);

  // Append rows to sentences and leave them rounded for the output matrix; return their number. The rows of a sentence
  // have one position and attend to each other, or (`causal`) follow each other and attend to those before them.
  int decode(const std::vector<DecoderInput>& inputs, bool causal);

  // Choose the best column of n decoded rows, -1 where all are forbidden; log_probs (n) and logits (n, out) may be null.
  void choose(const Linear& output, const float* bias, int first, int n, int32_t* columns, float* log_probs,
              float* logits = nullptr);

  // Return the log-probability of a piece for a row for which `choose` has seen the whole vocabulary with scores.
  float log_prob(const float* bias, int row, int32_t piece) const;

  // Decoded rows, to copy them and to bring them back.
  uint8_t* rows(int first) const { return rows_.get() + model.kit.row_bytes(first * model.sizes.d); }
  void reserve(size_t rows, size_t positions);

 private:
  // Rows of one sentence and the cache they attend to in the current layer.
  struct Span {
    int first, n;
    const LayerCache* cache;
  };

  const Kit& kit_;
  const int d_;
  const float query_scale_;
  std::vector<LayerCache> source_caches_;  // of the current encoder layer, one for every sentence
  std::vector<Span> spans_;
  std::vector<Slot> slots_;
  Buffer<float> x_, queries_, scores_;
  Buffer<uint8_t> rows_, hidden_rows_;
  Buffer<Best> best_;

  void begin_layer();
  void append(LayerCache& cache, int n);
  void embed(int row, int32_t token, const float* position, const float* segment);
  void norm(const Norm& norm, int n, const Rounding& rounding);
  void self_attention(const Layer& layer, int n, bool causal);
  void cross_attention(const Layer& layer, int n);
  void attend(bool causal, const Rounding& rounding);
  void feed_forward(const Layer& layer, int n);
};

}  // namespace recoversat
