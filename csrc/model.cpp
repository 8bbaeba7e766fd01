#include "model.h"

#include <cmath>
#include <sstream>

namespace recoversat {

namespace {

template <class T>
constexpr Tensor::Type TYPE = Tensor::F32;
template <>
constexpr Tensor::Type TYPE<int8_t> = Tensor::I8;
template <>
constexpr Tensor::Type TYPE<uint8_t> = Tensor::U8;

std::string described(Tensor::Type type, const std::vector<int64_t>& shape) {
  static const char* const NAMES[] = {"float32", "int8", "uint8"};
  std::ostringstream text;
  text << NAMES[type] << '[';
  for (size_t i = 0; i < shape.size(); ++i) text << (i ? ", " : "") << shape[i];
  text << ']';
  return text.str();
}

}  // namespace

void OwnedLinear::reserve(int inputs, int outputs, bool own_weights, bool own_bias) {
  in = inputs, out = outputs;
  if (own_weights) packed.reserve(size_t(in) * out), weights = packed.get();
  if (own_bias) biases.reserve(out), bias = biases.get();
  scales.reserve(out), starts.reserve(out);
  scale = scales.get(), start = starts.get();
}

Model::Model(const Kit& with, const Sizes& given, const Tensors& tensors) : kit(with), sizes(given), tensors_(tensors) {
  const int d = sizes.d;
  for (const int size : {d, sizes.hidden, sizes.pieces})
    if (size < 1 || size % UNIT) throw ModelError("d_model and d_hidden have to be multiples of 32");
  if (d > MAX_INPUTS || sizes.hidden > MAX_INPUTS) throw ModelError("d_model and d_hidden are limited to 65,536");
  if (sizes.heads < 1 || d % sizes.heads || d / sizes.heads % LANES)
    throw ModelError("the columns of a head (d_model / n_heads) have to be a multiple of 16");
  if (sizes.segments < 1 || sizes.encoder_layers < 1 || sizes.decoder_layers < 1)
    throw ModelError("a model has at least one segment and one layer on each side");
  const size_t widest = size_t(std::max(d, sizes.hidden));
  ones_.reserve(kit.row_bytes(int(widest)));
  for (size_t i = 0; i < widest; ++i) ones_[kit.row_bytes(int(i))] = 1;
  encoder.resize(sizes.encoder_layers), decoder.resize(sizes.decoder_layers);
  for (int i = 0; i < sizes.encoder_layers; ++i) read_layer("encoder", i, encoder[i]);
  for (int i = 0; i < sizes.decoder_layers; ++i) read_layer("decoder", i, decoder[i]);
  encoder_norm = norm("encoder.norm"), decoder_norm = norm("decoder.norm");
  linear(memory, "memory", d, 2 * d * sizes.decoder_layers);
  segment_embedding = take<float>("segment_embedding", {sizes.segments, d});
  pack_vocabulary();
  check_no_layer("encoder", sizes.encoder_layers), check_no_layer("decoder", sizes.decoder_layers);
}

// Return a tensor if it has this type and shape and, where it is of floats, if all of them are finite.
template <class T>
const T* Model::take(const std::string& name, std::vector<int64_t> shape) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw ModelError(name + " is missing");
  const Tensor& tensor = found->second;
  if (tensor.type != TYPE<T> || tensor.shape != shape)
    throw ModelError("the weights of another model: " + name + " is " + described(tensor.type, tensor.shape) +
                     " instead of " + described(TYPE<T>, shape));
  const bool vectors = tensor.type == Tensor::I8;
  if (reinterpret_cast<uintptr_t>(tensor.data) % (vectors ? CACHE_LINE : alignof(T)))
    throw ModelError(name + " is not aligned");
  if constexpr (std::is_same_v<T, float>) {
    size_t count = 1;
    for (const int64_t size : shape) count *= size_t(size);
    const float* values = static_cast<const float*>(tensor.data);
    for (size_t i = 0; i < count; ++i)
      if (!std::isfinite(values[i])) throw ModelError("damaged: " + name + " holds a value that is not finite");
  }
  return static_cast<const T*>(tensor.data);
}

Rounding Model::rounding(const std::string& name, float& step) {
  step = *take<float>(name + ".step", {1});
  const uint8_t zero = *take<uint8_t>(name + ".zero", {1});
  if (!(step > 0) || !std::isfinite(1 / step)) throw ModelError("damaged: " + name + ".step is not a positive number");
  return {step, zero};
}

Norm Model::norm(const std::string& name) {
  return {take<float>(name + ".weight", {sizes.d}), take<float>(name + ".bias", {sizes.d})};
}

void Model::linear(OwnedLinear& to, const std::string& name, int in, int out) {
  to.reserve(in, out, false, false);
  to.weights = take<int8_t>(name + ".weight", {out / LANES, in / GROUP, LANES, GROUP});
  to.bias = take<float>(name + ".bias", {out});
  float step;
  to.rounding = rounding(name, step);
  set_sums(to, take<float>(name + ".scale", {out}), step);
}

// Set what integer sums begin with and what they are multiplied by.
void Model::set_sums(OwnedLinear& map, const float* weight_scale, float step) {
  kit.column_sums(map, ones_.get(), map.starts.get());
  const int zero = map.rounding.zero;
  const int offset = kit.format == RowFormat::U8 ? -zero : kit.format == RowFormat::S8 ? 128 - zero : 0;
  for (int column = 0; column < map.out; ++column) {
    map.starts[column] *= offset;
    map.scales[column] = step * weight_scale[column];
  }
}

void Model::read_layer(const std::string& side, int index, Layer& layer) {
  const std::string name = side + ".layers." + std::to_string(index) + ".";
  const int d = sizes.d;
  layer.attention_norm = norm(name + "attention_norm");
  linear(layer.qkv, name + "self_attention.qkv", d, 3 * d);
  linear(layer.output, name + "self_attention.output", d, d);
  if (side == "decoder") {
    layer.cross_norm = norm(name + "cross_norm");
    linear(layer.cross_query, name + "cross_attention.query", d, d);
    linear(layer.cross_output, name + "cross_attention.output", d, d);
  }
  layer.feed_forward_norm = norm(name + "feed_forward_norm");
  linear(layer.inner, name + "feed_forward.inner", d, sizes.hidden);
  linear(layer.outer, name + "feed_forward.outer", sizes.hidden, d);
}

void Model::check_no_layer(const std::string& side, int index) const {
  if (tensors_.count(side + ".layers." + std::to_string(index) + ".attention_norm.weight"))
    throw ModelError("the weights of another model: more than " + std::to_string(index) + " layers of the " + side);
}

// Pack the embedding as the output matrix; its bias comes with every call.
void Model::pack_vocabulary() {
  embedding = take<int8_t>("embedding.weight", {sizes.pieces, sizes.d});
  embedding_scale = take<float>("embedding.scale", {sizes.pieces});
  vocabulary.reserve(sizes.d, sizes.pieces, true, false);
  for (int piece = 0; piece < sizes.pieces; piece += LANES) {
    const int8_t* rows[LANES];
    for (int i = 0; i < LANES; ++i) rows[i] = embedding + size_t(piece + i) * sizes.d;
    kit.pack(rows, sizes.d, vocabulary.packed.get() + size_t(piece) * sizes.d);
  }
  float step;
  vocabulary.rounding = rounding("embedding", step);
  set_sums(vocabulary, embedding_scale, step);
}

void Model::check_ids(const std::vector<int32_t>& ids) const {
  const auto is_wrong = [&](int32_t id) { return id < 0 || id >= sizes.pieces; };
  if (ids.empty() || std::any_of(ids.begin(), ids.end(), is_wrong))
    throw std::invalid_argument("ids from 0 to " + std::to_string(sizes.pieces - 1) + " are expected, one at least");
}

void Model::check_segments(int count) const {
  if (count < 1 || count > sizes.segments)
    throw std::invalid_argument("this model has " + std::to_string(sizes.segments) + " segments, not " +
                                std::to_string(count));
}

}  // namespace recoversat
