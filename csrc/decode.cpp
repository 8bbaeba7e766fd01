#include "decode.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace recoversat {

namespace {

constexpr int ENCODED_TOKENS = 128;   // that are encoded at a time, if no sentence is longer
constexpr int PREFETCHED_PIECES = 16;
constexpr size_t GROWTH_NUMERATOR = 3, GROWTH_DENOMINATOR = 2;  // of a Buffer

}  // namespace

size_t Sentence::longest() const {
  size_t longest = source.size();
  for (const int steps : max_steps) longest = std::max(longest, size_t(std::max(steps, 1)));
  return longest;
}

// The state of a sentence while it is written; its memory is used again by the next sentence.
struct Decoder::Active {
  std::shared_ptr<Sentence> sentence;
  std::shared_ptr<KVCache> encoded;  // of its source, if it was encoded here
  KVCache written;
  OwnedLinear shortlist;
  std::vector<int32_t> pieces;            // of the shortlist; empty: the whole vocabulary
  std::vector<int32_t> tokens, segments;  // of the active rows
  const Linear* output = nullptr;
  const float* bias = nullptr;
  int step = 0;
  bool verifies = false;
  Buffer<uint8_t> rows;  // that chose from the shortlist
  int n_rows = 0;
  size_t reserved_bytes = 0;

  explicit Active(const Model& model) : encoded(std::make_shared<KVCache>(model)), written(model) {}

  int n_active() const { return int(tokens.size()); }
  const KVCache& source() const { return sentence->source_cache ? *sentence->source_cache : *encoded; }
  size_t bytes() const { return shortlist.packed.bytes() + rows.bytes() + encoded->bytes() + written.bytes(); }

  void release(const Model& model) {
    encoded = std::make_shared<KVCache>(model), written = KVCache(model);
    shortlist = OwnedLinear(), rows = Buffer<uint8_t>();
  }
};

Decoder::Decoder(std::shared_ptr<const Model> model) : transformer(*model), model_(std::move(model)) {}
Decoder::~Decoder() = default;

void Decoder::begin(Batch batch) {
  for (const auto& sentence : batch.sentences) {
    model_->check_ids(sentence->source);
    model_->check_segments(sentence->k());
    sentence->segments.assign(sentence->k(), {}), sentence->log_probs.assign(sentence->k(), {});
  }
  if (batch.shortlist && batch.shortlist->pieces() > model_->sizes.pieces)
    throw std::invalid_argument("a shortlist of another vocabulary");
  batch_ = std::move(batch), next_ = 0;
  encoded_.clear(), active_.clear(), idle_.clear();
  for (auto& state : pool_) state->sentence.reset(), idle_.push_back(state.get());
}

void Decoder::forget() { batch_.sentences.clear(), next_ = 0; }

size_t Decoder::advance(int steps) {
  for (fill(); steps && !active_.empty(); --steps) step(), fill();
  return active_.size() + encoded_.size();
}

int Decoder::active_rows() const {
  int n = 0;
  for (const Active* state : active_) n += state->n_active();
  return n;
}

size_t Decoder::bytes_now() const {
  size_t sum = 0;
  for (const auto* group : {&active_, &encoded_})
    for (const Active* state : *group) sum += state->reserved_bytes;
  return sum;
}

// Return how many bytes a sentence keeps at most while it is written.
size_t Decoder::bytes_for(const Sentence& sentence) const {
  const int d = model_->sizes.d;
  size_t rows = 0, pieces = batch_.shortlist ? size_t(batch_.shortlist->pieces()) / 2 + UNIT : 0;
  for (const int most : sentence.max_steps) rows += std::max(1, most);
  const size_t source = sentence.source_cache ? 0 : LayerCache::bytes_for(d, sentence.source.size());
  const size_t kept = batch_.shortlist && batch_.verify != Verify::NO ? model_->kit.row_bytes(d) * rows : 0;
  const size_t shortlist = pieces * (d + 3 * sizeof(float));
  return model_->decoder.size() * (LayerCache::bytes_for(d, rows) + source) +
         (shortlist + kept) * GROWTH_NUMERATOR / GROWTH_DENOMINATOR;
}

// Let sentences begin while there is room for them.
void Decoder::fill() {
  while (!encoded_.empty() || next_ < batch_.sentences.size()) {
    if (active_rows() >= batch_.max_rows) return;
    if (encoded_.empty()) {
      if (!active_.empty() && bytes_now() + bytes_for(*batch_.sentences[next_]) > batch_.max_bytes) return;
      encode_next();
    }
    start(*encoded_.back());
    active_.push_back(encoded_.back());
    encoded_.pop_back();
  }
}

// Encode the next sentence, and sentences after it that fit beside it.
void Decoder::encode_next() {
  std::vector<EncoderInput> inputs;
  size_t tokens = 0, bytes = bytes_now();
  for (; next_ < batch_.sentences.size(); ++next_) {
    const std::shared_ptr<Sentence>& sentence = batch_.sentences[next_];
    const size_t needed = bytes_for(*sentence);
    const bool fits = tokens + sentence->source.size() <= ENCODED_TOKENS && bytes + needed <= batch_.max_bytes;
    if (!encoded_.empty() && !fits) break;
    tokens += sentence->source.size(), bytes += needed;
    Active& state = take_idle();
    state.sentence = sentence, state.reserved_bytes = std::max(needed, state.bytes());
    encoded_.push_back(&state);
    if (!sentence->source_cache) inputs.push_back({&sentence->source, state.encoded.get()});
  }
  std::reverse(encoded_.begin(), encoded_.end());
  if (!inputs.empty()) transformer.encode(inputs, batch_.positions);
}

Decoder::Active& Decoder::take_idle() {
  if (idle_.empty()) {
    pool_.push_back(std::make_unique<Active>(*model_));
    idle_.push_back(pool_.back().get());
  }
  Active& state = *idle_.back();
  idle_.pop_back();
  return state;
}

void Decoder::start(Active& state) {
  const Sentence& sentence = *state.sentence;
  state.pieces.clear();
  if (batch_.shortlist) batch_.shortlist->find(sentence.source, {}, state.pieces);
  state.output = state.pieces.empty() ? &model_->vocabulary : &build_shortlist(state);
  state.verifies = batch_.verify != Verify::NO && !state.pieces.empty(), state.n_rows = 0;
  set_bias(state, sentence.first_bias);
  state.written.truncate(0);
  open_segments(state);
}

void Decoder::open_segments(Active& state) {
  Sentence& sentence = *state.sentence;
  state.tokens.assign(sentence.k(), BOS), state.segments.resize(sentence.k()), state.step = 0;
  for (int segment = 0; segment < sentence.k(); ++segment) {
    state.segments[segment] = segment;
    sentence.segments[segment].clear(), sentence.log_probs[segment].clear();
  }
}

// Copy the columns of the output matrix that belong to the pieces of a shortlist.
const Linear& Decoder::build_shortlist(Active& state) {
  const Linear& whole = model_->vocabulary;
  OwnedLinear& shortlist = state.shortlist;
  const int n = int(state.pieces.size()), columns = (n + UNIT - 1) / UNIT * UNIT;
  shortlist.reserve(whole.in, columns, true, true);
  shortlist.rounding = whole.rounding;
  for (int tile = 0; tile < columns; tile += LANES) {
    const int8_t* rows[LANES];
    for (int i = tile + PREFETCHED_PIECES; i < std::min(n, tile + PREFETCHED_PIECES + LANES); ++i)
      for (int byte = 0; byte < whole.in; byte += int(CACHE_LINE))
        __builtin_prefetch(model_->embedding + size_t(state.pieces[i]) * whole.in + byte);
    for (int i = 0; i < LANES; ++i) {
      const int column = tile + i, piece = column < n ? state.pieces[column] : PAD;
      rows[i] = model_->embedding + size_t(piece) * whole.in;
      shortlist.scales[column] = whole.scale[piece], shortlist.starts[column] = whole.start[piece];
      shortlist.biases[column] = -std::numeric_limits<float>::infinity();
    }
    model_->kit.pack(rows, whole.in, shortlist.packed.get() + size_t(tile) * whole.in);
  }
  return shortlist;
}

// Use a bias for the next steps.
void Decoder::set_bias(Active& state, const float* bias) {
  state.bias = state.pieces.empty() ? bias : state.shortlist.biases.get();
  for (size_t i = 0; i < state.pieces.size(); ++i) state.shortlist.biases[i] = bias[state.pieces[i]];
}

// Write one token of every open segment.
void Decoder::step() {
  std::vector<DecoderInput> inputs;
  inputs.reserve(active_.size());
  for (Active* state : active_)
    inputs.push_back({&state->source(), &state->written, state->tokens.data(), state->segments.data(),
                      state->n_active(), batch_.positions + size_t(state->step) * model_->sizes.d});
  const size_t n = size_t(transformer.decode(inputs, false));
  if (columns_.size() < n) columns_.resize(n), scores_.resize(n);
  choose();
  int first = 0;
  for (Active* state : active_) {
    const int rows = state->n_active();
    if (state->verifies) keep_rows(*state, first, rows);
    record(*state, columns_.data() + first, scores_.data() + first);
    first += rows;
  }
  for (Active* state : active_)
    if (state->verifies && !state->n_active()) verify(*state);
  const auto goes_on = [](const Active* state) { return state->n_active() > 0; };
  const auto ended = std::stable_partition(active_.begin(), active_.end(), goes_on);
  std::for_each(ended, active_.end(), [&](Active* state) { finish(*state); });
  active_.erase(ended, active_.end());
}

// Choose the best column of every active row; sentences with the same output and bias choose together.
void Decoder::choose() {
  int first = 0;
  for (size_t i = 0; i < active_.size();) {
    const Active& head = *active_[i];
    int n = 0;
    for (; i < active_.size() && active_[i]->output == head.output && active_[i]->bias == head.bias; ++i)
      n += active_[i]->n_active();
    transformer.choose(*head.output, head.bias, first, n, columns_.data() + first,
                       batch_.scores ? scores_.data() + first : nullptr);
    first += n;
  }
}

// Append the chosen tokens; segments that have not ended stay open, and a row without any choice ends its segment.
void Decoder::record(Active& state, const int32_t* columns, const float* scores) {
  Sentence& sentence = *state.sentence;
  int open = 0;
  for (int row = 0; row < state.n_active(); ++row) {
    const int segment = state.segments[row], column = columns[row];
    const int token = column < 0 ? EOS : state.pieces.empty() ? column : state.pieces[column];
    sentence.segments[segment].push_back(token);
    if (batch_.scores) sentence.log_probs[segment].push_back(scores[row]);
    if (token > LAST_TERMINATOR && state.step + 1 < sentence.max_steps[segment])
      state.tokens[open] = token, state.segments[open++] = segment;
  }
  state.tokens.resize(open), state.segments.resize(open);
  if (!state.step++ && sentence.first_bias != sentence.bias) set_bias(state, sentence.bias);
}

void Decoder::keep_rows(Active& state, int first, int n) {
  const size_t bytes = model_->kit.row_bytes(model_->sizes.d);
  state.rows.reserve((state.n_rows + n) * bytes);
  std::memcpy(state.rows.get() + state.n_rows * bytes, transformer.rows(first), n * bytes);
  state.n_rows += n;
}

// Choose again for all rows, from the whole vocabulary; where it has a better piece, go on after that.
void Decoder::verify(Active& state) {
  const Sentence& sentence = *state.sentence;
  const Linear& whole = model_->vocabulary;
  const int n = state.n_rows, first = sentence.first_bias == sentence.bias ? 0 : sentence.k();
  if (columns_.size() < size_t(n)) columns_.resize(n), scores_.resize(n);
  transformer.reserve(n, 0);
  std::memcpy(transformer.rows(0), state.rows.get(), n * model_->kit.row_bytes(whole.in));
  float* scores = batch_.scores ? scores_.data() : nullptr;
  if (first) transformer.choose(whole, sentence.first_bias, 0, first, columns_.data(), scores);
  if (n > first)
    transformer.choose(whole, sentence.bias, first, n - first, columns_.data() + first, scores ? scores + first : nullptr);
  state.verifies = false;
  if (batch_.verify == Verify::TIME_ONLY) return;
  const std::vector<std::vector<int32_t>> drafted = sentence.segments;
  state.pieces.clear(), state.output = &whole;
  set_bias(state, sentence.first_bias);
  open_segments(state);
  for (int row = 0; row < n;) {
    const int32_t* columns = columns_.data() + row;
    const bool same = agrees(state, drafted, columns);
    const int rows = state.n_active();
    record(state, columns, scores_.data() + row);
    row += rows;
    state.written.truncate(row);
    if (!same) return;
  }
}

// Compare the drafted tokens of this step with the chosen columns.
bool Decoder::agrees(const Active& state, const std::vector<std::vector<int32_t>>& drafted, const int32_t* columns) {
  for (int row = 0; row < state.n_active(); ++row)
    if (drafted[state.segments[row]][state.step] != (columns[row] < 0 ? EOS : columns[row])) return false;
  return true;
}

// Idle memory is given back if all of it together is more than sentences may keep.
void Decoder::finish(Active& state) {
  state.sentence->steps = state.step;
  state.sentence.reset();
  size_t held = state.bytes();
  for (const Active* other : idle_) held += other->bytes();
  if (held > batch_.max_bytes) state.release(*model_);
  idle_.push_back(&state);
}

}  // namespace recoversat
