#include "transformer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace recoversat {

namespace {

size_t blocks_of(size_t positions) { return (positions + LANES - 1) / LANES; }

}  // namespace

void LayerCache::reserve(int d, size_t wanted) {
  d_ = d;
  const size_t size = blocks_of(wanted) * LANES * d;
  keys_.reserve(size), values_.reserve(size);
}

void LayerCache::copy(const LayerCache& other) {
  reserve(other.d_, other.positions);
  positions = other.positions;
  const size_t bytes = blocks_of(positions) * LANES * d_ * sizeof(float);
  if (!bytes) return;
  std::memcpy(keys_.get(), other.keys_.get(), bytes);
  std::memcpy(values_.get(), other.values_.get(), bytes);
}

Slot LayerCache::slot(int position) const {
  const size_t block = size_t(position / LANES) * LANES * d_;
  return {keys_.get() + block + position % LANES, values_.get() + block + position % LANES * LANES};
}

size_t LayerCache::bytes_for(int d, size_t positions) {
  return 2 * blocks_of(positions) * LANES * d * sizeof(float) * 3 / 2;
}

void KVCache::truncate(int positions) {
  for (LayerCache& layer : layers) layer.positions = positions;
}

void KVCache::copy(const KVCache& other) {
  layers.resize(other.layers.size());
  for (size_t i = 0; i < layers.size(); ++i) layers[i].copy(other.layers[i]);
}

bool KVCache::is_for(const Model& model) const {
  const int d = layers.empty() ? 0 : layers.front().d();
  return layers.size() == model.decoder.size() && (d == model.sizes.d || (d == 0 && positions() == 0));
}

size_t KVCache::bytes() const {
  size_t sum = 0;
  for (const LayerCache& layer : layers) sum += layer.bytes();
  return sum;
}

Transformer::Transformer(const Model& of)
    : model(of), kit_(of.kit), d_(of.sizes.d), query_scale_(1 / std::sqrt(float(of.sizes.d / of.sizes.heads))) {}

void Transformer::reserve(size_t n, size_t positions) {
  x_.reserve(n * d_), queries_.reserve(n * d_), best_.reserve(n);
  scores_.reserve(MAX_ATTENDING * blocks_of(positions) * LANES);
  rows_.reserve(n * kit_.row_bytes(d_)), hidden_rows_.reserve(n * kit_.row_bytes(model.sizes.hidden));
}

void Transformer::begin_layer() { spans_.clear(), slots_.clear(); }

// Give the next n rows the next positions of a cache, to which they attend.
void Transformer::append(LayerCache& cache, int n) {
  spans_.push_back({int(slots_.size()), n, &cache});
  for (int i = 0; i < n; ++i) slots_.push_back(cache.slot(cache.positions++));
}

void Transformer::embed(int row, int32_t token, const float* position, const float* segment) {
  const float factor = model.embedding_scale[token] * std::sqrt(float(d_));
  kit_.embed(model.embedding + size_t(token) * d_, factor, position, segment, d_, x_.get() + size_t(row) * d_);
}

void Transformer::norm(const Norm& norm, int n, const Rounding& rounding) {
  kit_.norm(x_.get(), n, d_, norm.weight, norm.bias, rounding, rows_.get());
}

void Transformer::self_attention(const Layer& layer, int n, bool causal) {
  norm(layer.attention_norm, n, layer.qkv.rounding);
  kit_.project(layer.qkv, rows_.get(), n, query_scale_, queries_.get(), slots_.data());
  attend(causal, layer.output.rounding);
  kit_.add_residual(layer.output, rows_.get(), n, x_.get());
}

void Transformer::cross_attention(const Layer& layer, int n) {
  norm(layer.cross_norm, n, layer.cross_query.rounding);
  kit_.project(layer.cross_query, rows_.get(), n, query_scale_, queries_.get(), nullptr);
  attend(false, layer.cross_output.rounding);
  kit_.add_residual(layer.cross_output, rows_.get(), n, x_.get());
}

void Transformer::attend(bool causal, const Rounding& rounding) {
  for (const Span& span : spans_)
    kit_.attend(queries_.get() + size_t(span.first) * d_, span.n, span.cache->view(), causal, model.sizes.heads,
                scores_.get(), rounding, rows(span.first));
}

void Transformer::feed_forward(const Layer& layer, int n) {
  norm(layer.feed_forward_norm, n, layer.inner.rounding);
  kit_.relu(layer.inner, rows_.get(), n, layer.outer.rounding, hidden_rows_.get());
  kit_.add_residual(layer.outer, hidden_rows_.get(), n, x_.get());
}

void Transformer::encode(const std::vector<EncoderInput>& inputs, const float* positions) {
  size_t n = 0, longest = 0;
  for (const EncoderInput& input : inputs) n += input.tokens->size(), longest = std::max(longest, input.tokens->size());
  reserve(n, longest);
  if (source_caches_.size() < inputs.size()) source_caches_.resize(inputs.size());
  int row = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<int32_t>& tokens = *inputs[i].tokens;
    source_caches_[i].reserve(d_, tokens.size());
    for (LayerCache& layer : inputs[i].cache->layers) layer.reserve(d_, tokens.size()), layer.positions = 0;
    for (size_t position = 0; position < tokens.size(); ++position)
      embed(row++, tokens[position], positions + position * d_, nullptr);
  }
  for (const Layer& layer : model.encoder) {
    begin_layer();
    for (size_t i = 0; i < inputs.size(); ++i) {
      source_caches_[i].positions = 0;
      append(source_caches_[i], int(inputs[i].tokens->size()));
    }
    self_attention(layer, int(n), false);
    feed_forward(layer, int(n));
  }
  norm(model.encoder_norm, int(n), model.memory.rounding);
  begin_layer();
  for (size_t layer = 0; layer < model.decoder.size(); ++layer)
    for (const EncoderInput& input : inputs) append(input.cache->layers[layer], int(input.tokens->size()));
  kit_.project_memory(model.memory, rows_.get(), int(n), slots_.data());
}

int Transformer::decode(const std::vector<DecoderInput>& inputs, bool causal) {
  int n = 0, positions = 0;
  for (const DecoderInput& input : inputs) {
    n += input.n;
    positions = std::max({positions, input.written->positions() + input.n, input.source->positions()});
  }
  reserve(n, positions);
  int row = 0;
  for (const DecoderInput& input : inputs)
    for (int i = 0; i < input.n; ++i)
      embed(row++, input.tokens[i], input.position + size_t(causal) * i * d_,
            model.segment_embedding + size_t(input.segments[i]) * d_);
  for (size_t layer = 0; layer < model.decoder.size(); ++layer) {
    begin_layer();
    for (const DecoderInput& input : inputs) {
      LayerCache& cache = input.written->layers[layer];
      cache.reserve(d_, cache.positions + input.n);
      append(cache, input.n);
    }
    self_attention(model.decoder[layer], n, causal);
    for (size_t i = 0; i < inputs.size(); ++i) spans_[i].cache = &inputs[i].source->layers[layer];
    cross_attention(model.decoder[layer], n);
    feed_forward(model.decoder[layer], n);
  }
  norm(model.decoder_norm, n, model.vocabulary.rounding);
  return n;
}

void Transformer::choose(const Linear& output, const float* bias, int first, int n, int32_t* columns, float* log_probs,
                         float* logits) {
  Best* best = best_.get() + first;
  kit_.choose(output, rows(first), n, bias, log_probs != nullptr, best, logits);
  for (int row = 0; row < n; ++row) {
    columns[row] = best[row].column;
    if (!log_probs) continue;
    log_probs[row] = columns[row] < 0 ? -std::numeric_limits<float>::infinity() : -log_sum(best[row]);
  }
}

float Transformer::log_prob(const float* bias, int row, int32_t piece) const {
  const int first = piece / UNIT * UNIT;  // the two tiles with this piece
  Linear tiles = model.vocabulary;
  tiles.out = UNIT;
  tiles.weights += size_t(first) * d_, tiles.scale += first, tiles.start += first;
  float logits[UNIT];
  Best ignored;
  kit_.choose(tiles, rows(row), 1, bias + first, false, &ignored, logits);
  const Best& best = best_[row];
  const float logit = logits[piece - first];
  return best.column < 0 ? logit : logit - best.value - log_sum(best);
}

}  // namespace recoversat
