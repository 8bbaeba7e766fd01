// Decoding: sentences of a batch are written side by side, K segments of each at the same time; as soon as one has ended
// the next one begins.
#pragma once

#include <memory>
#include <vector>

#include "shortlist.h"
#include "transformer.h"

namespace recoversat {

constexpr int PAD = 0, BOS = 1, EOS = 2, LAST_TERMINATOR = 4;

// A sentence that is to be written, and its translation.
struct Sentence {
  std::vector<int32_t> source;
  std::vector<int> max_steps;        // (K) of each segment
  const float *bias, *first_bias;    // (P) added to the logits, and in the first step
  std::shared_ptr<const KVCache> source_cache;  // null: the source has to be encoded

  std::vector<std::vector<int32_t>> segments;
  std::vector<std::vector<float>> log_probs;
  int steps = 0;

  int k() const { return int(max_steps.size()); }
  // Return how many positions are needed for it.
  size_t longest() const;
};

// What happens to sentences written with a shortlist: nothing, their tokens are verified with the whole vocabulary and
// written again from the first difference on, or they are verified without consequences (to time untrained models).
enum class Verify { NO, YES, TIME_ONLY };

struct Batch {
  std::vector<std::shared_ptr<Sentence>> sentences;
  const float* positions;  // (T, D), enough for the longest source and segment
  std::shared_ptr<const Shortlist> shortlist;  // or null
  bool scores;
  int max_rows;       // a sentence begins while fewer rows are active
  size_t max_bytes;   // that the sentences written at the same time keep, if there are several
  Verify verify;
};

class Decoder {
 public:
  explicit Decoder(std::shared_ptr<const Model> model);

  Transformer transformer;

  // Begin a batch; `advance` writes it.
  void begin(Batch batch);

  // Take up to so many steps; return how many sentences are not finished. The batch ends with the last one.
  size_t advance(int steps);
  // Let go of the sentences of a batch that has ended: the caller keeps them, and what they hold.
  void forget();

 private:
  struct Active;

  const std::shared_ptr<const Model> model_;
  Batch batch_{};
  size_t next_ = 0;  // sentence of the batch
  std::vector<std::unique_ptr<Active>> pool_;
  std::vector<Active*> idle_, encoded_, active_;  // the last encoded sentence begins next
  std::vector<int32_t> columns_;
  std::vector<float> scores_;

  int active_rows() const;
  size_t bytes_now() const;
  size_t bytes_for(const Sentence& sentence) const;
  void fill();
  void encode_next();
  Active& take_idle();
  void start(Active& state);
  void open_segments(Active& state);
  const Linear& build_shortlist(Active& state);
  void set_bias(Active& state, const float* bias);
  void step();
  void choose();
  void record(Active& state, const int32_t* columns, const float* scores);
  void keep_rows(Active& state, int first, int n);
  void verify(Active& state);
  static bool agrees(const Active& state, const std::vector<std::vector<int32_t>>& drafted, const int32_t* columns);
  void finish(Active& state);

 public:
  ~Decoder();
};

}  // namespace recoversat
