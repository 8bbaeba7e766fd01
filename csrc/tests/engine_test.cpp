// Tests of the engine without Python: every kit that this processor runs writes the same bits, alone and in a batch, in
// several threads, after a cancelled batch and from copies of a KV cache; damaged models and wrong ids are refused.
//
//   engine_test             run all tests
//   engine_test --quick     those of the smallest model
//   engine_test --checksum  print a number that is the same on every processor
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "random_model.h"

namespace recoversat {
namespace {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void expect(bool condition, const std::string& message) {
  if (!condition) throw Failure(message);
}

template <class Error>
void expect_error(const std::string& part, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    const std::string message = error.what();
    return expect(message.find(part) != std::string::npos, "the error is '" + message + "', without '" + part + "'");
  }
  throw Failure("no error where one about '" + part + "' was expected");
}

struct Request {
  std::vector<int32_t> source;
  int k;
};

// How requests are written.
struct Setting {
  int max_rows = 8;
  size_t max_bytes = size_t(1) << 27;
  bool scores = true, cached = false;
  std::shared_ptr<const Shortlist> shortlist = nullptr;
  Verify verify = Verify::NO;
};

// What was written; floats as bits, so that comparing them is exact.
struct Written {
  std::vector<std::vector<int32_t>> segments;
  std::vector<std::vector<uint32_t>> log_probs;
  int steps;
};

using Results = std::vector<Written>;

std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  if (!values.empty()) std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

std::string at(const char* what, size_t index) { return std::string(", ") + what + " " + std::to_string(index); }

void expect_same(const Results& got, const Results& wanted, const std::string& who, bool scores = true) {
  expect(got.size() == wanted.size(), who + ": another number of sentences");
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string where = who + at("sentence", i);
    expect(got[i].segments.size() == wanted[i].segments.size(), where + ": another number of segments");
    for (size_t s = 0; s < wanted[i].segments.size(); ++s) {
      expect(got[i].segments[s] == wanted[i].segments[s], where + at("segment", s) + ": other tokens");
      if (!scores) continue;
      expect(got[i].log_probs[s] == wanted[i].log_probs[s], where + at("segment", s) + ": other log-probabilities");
    }
    expect(got[i].steps == wanted[i].steps, where + ": another number of steps");
  }
}

std::vector<Request> make_requests(const Sizes& sizes, uint64_t seed) {
  Random random(seed);
  std::vector<Request> requests;
  for (const int length : {9, 1, 30, 3, 17, 2, 70, 8, 1, 33, 16, 5}) {
    Request request{{}, int(requests.size()) % sizes.segments + 1};
    for (int i = 0; i < length; ++i) request.source.push_back(random.between(0, sizes.pieces - 1));
    requests.push_back(std::move(request));
  }
  return requests;
}

std::shared_ptr<const Shortlist> make_shortlist(const RandomModel& data, uint64_t seed) {
  constexpr int EACH = 3;
  Random random(seed);
  const int pieces = data.sizes.pieces - RandomModel::PADDING;
  std::vector<int32_t> likeliest(size_t(pieces) * EACH);
  for (int32_t& piece : likeliest) piece = random.between(0, pieces - 1);
  const size_t words = (size_t(pieces) + 63) / 64;
  std::vector<uint64_t> common(words, 0), allowed(words, ~uint64_t(0));
  common[0] = 0xFFFFC, allowed[0] = ~uint64_t(3);
  return std::make_shared<Shortlist>(pieces, likeliest, std::vector<int32_t>{}, common, allowed);
}

// A model on a kit, and requests to it.
struct Subject {
  const RandomModel& data;
  std::shared_ptr<const Model> model;
  std::vector<Request> requests;

  Subject(const RandomModel& of, const Kit& kit)
      : data(of), model(std::make_shared<Model>(kit, of.sizes, of.tensors)), requests(make_requests(of.sizes, 5)) {}

  std::shared_ptr<KVCache> encode(Decoder& decoder, const std::vector<int32_t>& source) const {
    auto cache = std::make_shared<KVCache>(*model);
    decoder.transformer.encode({{&source, cache.get()}}, data.positions.data());
    return cache;
  }

  Batch batch(const std::vector<Request>& some, const Setting& setting) const {
    Decoder encoder(model);
    Batch batch{{}, data.positions.data(), setting.shortlist, setting.scores, setting.max_rows, setting.max_bytes,
                setting.verify};
    for (const Request& request : some) {
      auto sentence = std::make_shared<Sentence>();
      sentence->source = request.source;
      for (int segment = 0; segment < request.k; ++segment) sentence->max_steps.push_back(12 - segment);
      sentence->bias = data.bias.data(), sentence->first_bias = (request.k > 1 ? data.first_bias : data.bias).data();
      if (setting.cached) sentence->source_cache = encode(encoder, request.source);
      batch.sentences.push_back(std::move(sentence));
    }
    return batch;
  }

  Results write(Decoder& decoder, const std::vector<Request>& some, const Setting& setting) const {
    const Batch wanted = batch(some, setting);
    decoder.begin(wanted);
    while (decoder.advance(3)) {}
    Results results;
    for (const auto& sentence : wanted.sentences) {
      Written written{sentence->segments, {}, sentence->steps};
      for (const auto& values : sentence->log_probs) written.log_probs.push_back(bits_of(values));
      results.push_back(std::move(written));
    }
    return results;
  }

  Results write(const Setting& setting = {}) const {
    Decoder decoder(model);
    return write(decoder, requests, setting);
  }
};

std::vector<const Kit*> all_kits() {
  std::vector<const Kit*> kits;
  for (const Kit* const* kit = usable_kits(); *kit; ++kit) kits.push_back(*kit);
  return kits;
}

const Kit& plain_kit() {
  for (const Kit* kit : all_kits())
    if (!std::strcmp(kit->name, "plain")) return *kit;
  throw Failure("the plain kit is missing");
}

// A test of results would see nothing if all sentences were alike.
void test_sentences_differ(const Subject& plain) {
  std::map<size_t, int> lengths;
  std::map<int32_t, int> tokens;
  for (const Written& one : plain.write())
    for (const auto& segment : one.segments) {
      ++lengths[segment.size()];
      for (const int32_t token : segment) ++tokens[token];
    }
  expect(lengths.size() > 5, "only " + std::to_string(lengths.size()) + " different lengths of segments");
  expect(tokens.size() > 30, "only " + std::to_string(tokens.size()) + " different tokens");
}

// Write everything, with a shortlist, with a verified shortlist, and with sources that were encoded before.
std::vector<Results> write_in_all_ways(const Subject& subject) {
  Setting listed, verified, cached;
  listed.shortlist = verified.shortlist = make_shortlist(subject.data, 7), verified.verify = Verify::YES;
  cached.cached = true;
  return {subject.write(), subject.write(listed), subject.write(verified), subject.write(cached)};
}

void test_it_writes_what_plain_cpp_does(const Subject& subject, const std::vector<Results>& plain) {
  const std::vector<Results> results = write_in_all_ways(subject);
  for (size_t i = 0; i < plain.size(); ++i) expect_same(results[i], plain[i], "another kit");
}

void test_a_batch_is_what_its_sentences_are_alone(const Subject& subject) {
  Setting listed;
  listed.shortlist = make_shortlist(subject.data, 7);
  for (Setting setting : {Setting(), listed}) {
    const Results wanted = subject.write(setting);
    Decoder decoder(subject.model);
    for (size_t i = 0; i < subject.requests.size(); ++i)
      expect_same(subject.write(decoder, {subject.requests[i]}, setting), {wanted[i]}, "alone" + at("request", i));
    for (const int rows : {1, 40}) {
      setting.max_rows = rows;
      expect_same(subject.write(setting), wanted, std::to_string(rows) + " rows");
    }
    setting.max_bytes = 1;
    expect_same(subject.write(setting), wanted, "without memory");
    setting.scores = false;
    expect_same(subject.write(setting), wanted, "without scores", false);
  }
}

void test_verified_shortlists_write_what_the_whole_vocabulary_does(const Subject& subject) {
  const Results wanted = subject.write();
  Setting setting;
  setting.shortlist = make_shortlist(subject.data, 7);
  const Results listed = subject.write(setting);
  size_t different = 0;
  for (size_t i = 0; i < listed.size(); ++i) different += listed[i].segments != wanted[i].segments;
  expect(different > 3, "the shortlist changes hardly anything, so that nothing is verified");
  setting.verify = Verify::TIME_ONLY;
  expect_same(subject.write(setting), listed, "verified without consequences");
  setting.verify = Verify::YES;
  expect_same(subject.write(setting), wanted, "verified");
}

void test_threads_share_a_model(const Subject& subject) {
  constexpr int THREADS = 4;
  const Results wanted = subject.write();
  const Batch shared = subject.batch(subject.requests, [] { Setting s; s.cached = true; return s; }());
  std::vector<Results> results(THREADS);
  std::vector<std::thread> threads;
  for (int i = 0; i < THREADS; ++i)
    threads.emplace_back([&, i] {
      Decoder decoder(subject.model);
      Batch own = shared;  // the same KV caches of sources
      for (auto& sentence : own.sentences) sentence = std::make_shared<Sentence>(*sentence);
      decoder.begin(own);
      while (decoder.advance(1 + i)) {}
      results[i] = subject.write(decoder, subject.requests, {});
      for (size_t s = 0; s < wanted.size(); ++s)
        if (own.sentences[s]->segments != wanted[s].segments) results[i].clear();
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < THREADS; ++i) expect_same(results[i], wanted, "thread " + std::to_string(i));
}

void test_cancelled_batches_leave_nothing_behind(const Subject& subject) {
  const Results wanted = subject.write();
  Setting listed;
  listed.shortlist = make_shortlist(subject.data, 7), listed.verify = Verify::YES;
  Decoder decoder(subject.model);
  for (const int steps : {0, 1, 5, 20}) {
    decoder.begin(subject.batch(subject.requests, steps % 2 ? listed : Setting()));
    decoder.advance(steps);
    const Results after = subject.write(decoder, subject.requests, {});
    expect_same(after, wanted, "after " + std::to_string(steps) + " steps of a batch");
  }
  Decoder given_up(subject.model);
  given_up.begin(subject.batch(subject.requests, {}));
  given_up.advance(4);
}

// The rows of a sentence, one step after the other, that are written and read again from a KV cache.
struct Rows {
  const Subject& subject;
  Decoder decoder;
  std::shared_ptr<KVCache> source;

  explicit Rows(const Subject& of)
      : subject(of), decoder(of.model), source(of.encode(decoder, of.requests[2].source)) {}

  // Append tokens to a cache; return the bits of the logits of all of them.
  std::vector<uint32_t> append(KVCache& to, const std::vector<int32_t>& tokens, bool causal) {
    const Sizes& sizes = subject.data.sizes;
    const int n = int(tokens.size());
    const float* position = subject.data.positions.data() + size_t(to.positions()) * sizes.d;
    std::vector<int32_t> segments(n, 0), columns(n);
    if (!causal)
      for (int i = 0; i < n; ++i) segments[i] = i;
    std::vector<float> logits(size_t(n) * sizes.pieces), scores(n);
    decoder.transformer.decode({{source.get(), &to, tokens.data(), segments.data(), n, position}}, causal);
    decoder.transformer.choose(subject.model->vocabulary, subject.data.bias.data(), 0, n, columns.data(), scores.data(),
                               logits.data());
    for (int i = 0; i < n; ++i) {
      const float again = decoder.transformer.log_prob(subject.data.bias.data(), i, columns[i]);
      expect(again == scores[i], "the log-probability of a piece that was chosen");
    }
    return bits_of(logits);
  }
};

void test_copies_of_a_cache_are_independent(const Subject& subject) {
  Rows rows(subject);
  KVCache kept(*subject.model), copy;
  rows.append(kept, {1, 5, 7, 9}, false);
  copy.copy(kept);
  const auto wanted = rows.append(kept, {11, 12, 13}, false);
  rows.append(copy, {21, 22}, false), rows.append(copy, {23, 24, 25, 26}, false);
  KVCache again;
  again.copy(kept);
  again.truncate(4);
  expect(rows.append(again, {11, 12, 13}, false) == wanted, "rows after a copy that was cut");
  copy.copy(kept);  // of other sizes
  copy.truncate(4);
  expect(rows.append(copy, {11, 12, 13}, false) == wanted, "rows after a copy over other rows");
  expect(kept.fits(*subject.model), "a cache of this model");
  expect(!KVCache().is_for(*subject.model) && !KVCache(*subject.model).fits(*subject.model), "an empty cache fits");
}

void test_causal_rows_are_what_they_are_one_by_one(const Subject& subject) {
  Rows rows(subject);
  std::vector<int32_t> tokens{1};
  for (int i = 0; i < 40; ++i) tokens.push_back(5 + i * 3);
  KVCache together(*subject.model), single(*subject.model);
  const auto wanted = rows.append(together, tokens, true);
  std::vector<uint32_t> each;
  for (const int32_t token : tokens)
    for (const uint32_t bits : rows.append(single, {token}, true)) each.push_back(bits);
  expect(each == wanted, "rows one by one");
  together.truncate(17);
  const auto rest = rows.append(together, {tokens.begin() + 17, tokens.end()}, true);
  expect(std::equal(rest.begin(), rest.end(), wanted.begin() + 17 * subject.data.sizes.pieces), "rows written again");
}

void test_nothing_to_choose_ends_a_segment(const Subject& subject) {
  const std::vector<float> never(subject.data.sizes.pieces, -std::numeric_limits<float>::infinity());
  Batch batch = subject.batch(subject.requests, {});
  for (auto& sentence : batch.sentences) sentence->bias = sentence->first_bias = never.data();
  Decoder decoder(subject.model);
  decoder.begin(batch);
  while (decoder.advance(1)) {}
  for (const auto& sentence : batch.sentences)
    for (const auto& segment : sentence->segments) expect(segment == std::vector<int32_t>{EOS}, "a forbidden token");
}

void test_wrong_requests_are_refused(const Subject& subject) {
  Decoder decoder(subject.model);
  const int pieces = subject.data.sizes.pieces, segments = subject.data.sizes.segments;
  const auto refuse = [&](const Request& request, const std::string& part, const Setting& setting = {}) {
    expect_error<std::invalid_argument>(part, [&] { decoder.begin(subject.batch({request}, setting)); });
  };
  for (const int32_t wrong : {-1, pieces, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()})
    refuse({{1, wrong, 2}, 1}, "ids from 0 to");
  refuse({{}, 1}, "one at least");
  refuse({{1}, 0}, "segments, not 0"), refuse({{1}, segments + 1}, "segments, not");
  Setting wider;
  wider.shortlist = std::make_shared<Shortlist>(pieces + 64, std::vector<int32_t>(pieces + 64), std::vector<int32_t>(),
                                                std::vector<uint64_t>((pieces + 127) / 64),
                                                std::vector<uint64_t>((pieces + 127) / 64));
  refuse({{1}, 1}, "a shortlist of another vocabulary", wider);
  const std::vector<uint64_t> word(1);
  expect_error<std::invalid_argument>("other sizes", [&] { Shortlist(70, {}, {}, word, word); });
  expect_error<std::invalid_argument>("other sizes", [&] { Shortlist(0, {}, {}, {}, {}); });
  expect_error<std::invalid_argument>("no piece", [&] { Shortlist(2, {0, 2}, {}, word, word); });
  expect_error<std::invalid_argument>("no piece", [&] { Shortlist(2, {0, 1}, {-1}, {0, 0}, word); });
  std::vector<int32_t> found;
  const Shortlist small(2, {0, 1}, {}, word, word);
  expect_error<std::invalid_argument>("can be forced", [&] { small.find({0}, {2}, found); });
}

void refuse_tensors(const RandomModel& data, const Kit& kit, const Tensors& tensors, const std::string& part) {
  expect_error<ModelError>(part, [&] { Model(kit, data.sizes, tensors); });
}

void test_damaged_tensors_are_refused(const RandomModel& data, const Kit& kit) {
  for (const auto& [name, tensor] : data.tensors) {
    Tensors tensors = data.tensors;
    tensors.erase(name);
    refuse_tensors(data, kit, tensors, name + " is missing");
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis)
      for (const int64_t change : {-1, 1, 32}) {
        tensors = data.tensors;
        tensors[name].shape[axis] += change;
        refuse_tensors(data, kit, tensors, "the weights of another model: " + name);
      }
    tensors = data.tensors;
    tensors[name].shape.push_back(1);
    refuse_tensors(data, kit, tensors, name);
    tensors = data.tensors;
    tensors[name].type = tensor.type == Tensor::I8 ? Tensor::U8 : Tensor::I8;
    refuse_tensors(data, kit, tensors, name);
    if (tensor.type == Tensor::U8) continue;
    tensors = data.tensors;
    tensors[name].data = static_cast<const char*>(tensor.data) + 1;
    refuse_tensors(data, kit, tensors, name + " is not aligned");
  }
}

void test_layers_too_many_are_refused(const RandomModel& data, const Kit& kit) {
  for (const std::string side : {"encoder", "decoder"}) {
    const int count = side == "encoder" ? data.sizes.encoder_layers : data.sizes.decoder_layers;
    Tensors tensors = data.tensors;
    tensors[side + ".layers." + std::to_string(count) + ".attention_norm.weight"] = tensors[side + ".norm.weight"];
    refuse_tensors(data, kit, tensors, "more than " + std::to_string(count) + " layers of the " + side);
  }
}

void test_damaged_floats_are_refused(RandomModel& data, const Kit& kit) {
  const float infinite = std::numeric_limits<float>::infinity();
  for (const auto& [name, tensor] : data.tensors) {
    if (tensor.type != Tensor::F32) continue;
    size_t count = 1;
    for (const int64_t size : tensor.shape) count *= size_t(size);
    float& last = data.floats(name)[count - 1];
    const float before = last;
    for (const float wrong : {std::nanf(""), infinite, -infinite}) {
      last = wrong;
      refuse_tensors(data, kit, data.tensors, name + " holds a value that is not finite");
    }
    const bool is_step = name.size() > 5 && name.substr(name.size() - 5) == ".step";
    for (const float wrong : {0.0f, -0.5f, 1e-45f}) {
      if (!is_step) continue;
      last = wrong;
      refuse_tensors(data, kit, data.tensors, name + " is not a positive number");
    }
    last = before;
  }
}

void test_wrong_sizes_are_refused(const RandomModel& data, const Kit& kit) {
  const auto refuse = [&](const std::string& part, const std::function<void(Sizes&)>& change) {
    Sizes sizes = data.sizes;
    change(sizes);
    expect_error<ModelError>(part, [&] { Model(kit, sizes, data.tensors); });
  };
  for (const int wrong : {0, -32, 16, 33}) {
    refuse("multiples of 32", [&](Sizes& sizes) { sizes.d = wrong; });
    refuse("multiples of 32", [&](Sizes& sizes) { sizes.hidden = wrong; });
    refuse("multiples of 32", [&](Sizes& sizes) { sizes.pieces = wrong; });
  }
  for (const int wrong : {0, -1, 5, 1000}) refuse("columns of a head", [&](Sizes& sizes) { sizes.heads = wrong; });
  refuse("limited to", [&](Sizes& sizes) { sizes.hidden = 2 * MAX_INPUTS; });
  refuse("at least one", [&](Sizes& sizes) { sizes.segments = 0; });
  refuse("at least one", [&](Sizes& sizes) { sizes.encoder_layers = 0; });
  refuse("at least one", [&](Sizes& sizes) { sizes.decoder_layers = -1; });
  refuse("another model", [&](Sizes& sizes) { ++sizes.segments; });
  refuse("another model", [&](Sizes& sizes) { sizes.pieces += 64; });
  refuse("another model", [&](Sizes& sizes) { --sizes.decoder_layers; });
  refuse("is missing", [&](Sizes& sizes) { ++sizes.encoder_layers; });
}

// Whatever single bytes of floats become, a model is refused or writes something.
void test_flipped_bytes_do_no_harm(const Sizes& sizes, const Kit& kit) {
  Random random(11);
  constexpr int ROUNDS = 30;
  int refused = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    RandomModel data(sizes, 3);
    for (auto& [name, tensor] : data.tensors) {
      if (tensor.type != Tensor::F32 || random.between(0, 3)) continue;
      size_t bytes = sizeof(float);
      for (const int64_t size : tensor.shape) bytes *= size_t(size);
      reinterpret_cast<uint8_t*>(data.floats(name))[random.next() % bytes] ^= uint8_t(random.between(1, 255));
    }
    try {
      Subject subject(data, kit);
      subject.requests.resize(3);
      subject.write();
    } catch (const ModelError&) {
      ++refused;
    }
  }
  expect(refused > 0 && refused < ROUNDS, std::to_string(refused) + " models were refused");
}

// d, hidden, heads, layers of the encoder and decoder, pieces, segments: with and without inputs that fill no tile of
// AMX, heads of one and several vectors.
const std::vector<Sizes> SIZES = {
    {32, 96, 2, 2, 2, 320, 5}, {96, 160, 2, 2, 2, 352, 8}, {128, 64, 2, 1, 3, 416, 8}};

int failures = 0;

void run(const std::string& name, const std::function<void()>& test) {
  try {
    test();
  } catch (const std::exception& error) {
    std::printf("FAILED %s: %s\n", name.c_str(), error.what());
    ++failures;
  }
}

void test_kit(const RandomModel& data, const Kit& kit, const std::vector<Results>& plain, const std::string& where) {
  const Subject subject(data, kit);
  run("against plain C++, " + where, [&] { test_it_writes_what_plain_cpp_does(subject, plain); });
  run("alone and in a batch, " + where, [&] { test_a_batch_is_what_its_sentences_are_alone(subject); });
  run("verified shortlists, " + where, [&] { test_verified_shortlists_write_what_the_whole_vocabulary_does(subject); });
  run("threads, " + where, [&] { test_threads_share_a_model(subject); });
  run("cancelled batches, " + where, [&] { test_cancelled_batches_leave_nothing_behind(subject); });
  run("copies of a KV cache, " + where, [&] { test_copies_of_a_cache_are_independent(subject); });
  run("causal rows, " + where, [&] { test_causal_rows_are_what_they_are_one_by_one(subject); });
  run("nothing to choose, " + where, [&] { test_nothing_to_choose_ends_a_segment(subject); });
  run("wrong requests, " + where, [&] { test_wrong_requests_are_refused(subject); });
}

void test_model(const Sizes& sizes) {
  RandomModel data(sizes, uint64_t(sizes.d));
  const std::string size = "d = " + std::to_string(sizes.d);
  run("sentences differ, " + size, [&] { test_sentences_differ(Subject(data, plain_kit())); });
  const std::vector<Results> plain = write_in_all_ways(Subject(data, plain_kit()));
  for (const Kit* kit : all_kits()) test_kit(data, *kit, plain, std::string(kit->name) + ", " + size);
  run("damaged tensors, " + size, [&] { test_damaged_tensors_are_refused(data, plain_kit()); });
  run("layers too many, " + size, [&] { test_layers_too_many_are_refused(data, plain_kit()); });
  run("damaged floats, " + size, [&] { test_damaged_floats_are_refused(data, plain_kit()); });
  run("wrong sizes, " + size, [&] { test_wrong_sizes_are_refused(data, plain_kit()); });
}

void print_checksum() {
  uint64_t sum = 0xCBF29CE484222325;  // FNV-1a over all tokens and log-probabilities
  const auto add = [&](uint32_t value) { sum = (sum ^ value) * 0x100000001B3; };
  for (const Sizes& sizes : SIZES) {
    const RandomModel data(sizes, uint64_t(sizes.d));
    for (const Written& one : Subject(data, *all_kits().front()).write()) {
      for (const auto& segment : one.segments)
        for (const int32_t token : segment) add(uint32_t(token));
      for (const auto& values : one.log_probs)
        for (const uint32_t bits : values) add(bits);
    }
  }
  std::printf("%016llx\n", static_cast<unsigned long long>(sum));
}

int run_all(bool quick) {
  for (const Sizes& sizes : SIZES) {
    test_model(sizes);
    if (quick) break;
  }
  for (const Kit* kit : all_kits())
    run(std::string("flipped bytes, ") + kit->name, [&] { test_flipped_bytes_do_no_harm(SIZES[0], *kit); });
  std::printf("%s with the kits", failures ? "FAILED" : "passed");
  for (const Kit* kit : all_kits()) std::printf(" %s", kit->name);
  std::printf("\n");
  return failures ? 1 : 0;
}

}  // namespace
}  // namespace recoversat

int main(int count, char** arguments) {
  const std::string wanted = count > 1 ? arguments[1] : "";
  if (wanted == "--checksum") {
    recoversat::print_checksum();
    return 0;
  }
  return recoversat::run_all(wanted == "--quick");
}
