// The Python module: typed arguments, exceptions that keep their meaning, and no GIL while rows are computed.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "decode.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace recoversat {
namespace {

template <class T, size_t N>
using Array = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <class T, size_t N>
using Output = nb::ndarray<T, nb::numpy, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
using Ids = std::vector<int32_t>;

// A daemon thread that asks for the GIL while the interpreter ends is unwound by Python up to 3.13, which ends the process
// in C++ code. So from `at_exit` on such threads sleep instead.
std::atomic<bool> exiting{false};
std::atomic<int> returning{0};
std::thread::id exiting_thread;

template <class Work>
auto without_gil(Work&& work) {
  PyThreadState* state = PyEval_SaveThread();
  struct Reacquire {
    PyThreadState* state;
    ~Reacquire() {
      ++returning;
      if (exiting && std::this_thread::get_id() != exiting_thread) {
        --returning;
        for (;;) pause();
      }
      PyEval_RestoreThread(state);
      --returning;
    }
  } reacquire{state};
  return work();
}

void at_exit() {
  exiting_thread = std::this_thread::get_id();
  exiting = true;
  nb::gil_scoped_release release;
  while (returning) std::this_thread::yield();
}

const Kit& kit_named(const std::string& name) {
  for (const Kit* const* kit = usable_kits(); *kit; ++kit)
    if (name == (*kit)->name) return **kit;
  throw std::invalid_argument("no kit " + name + " here");
}

std::vector<std::string> kits() {
  std::vector<std::string> names;
  for (const Kit* const* kit = usable_kits(); *kit; ++kit) names.push_back((*kit)->name);
  return names;
}

Tensors tensors_of(const nb::dict& arrays) {
  Tensors tensors;
  for (const auto& [name, value] : arrays) {
    const auto array = nb::cast<nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>>(value, false);
    Tensor tensor{Tensor::F32, {}, array.data()};
    if (array.dtype() == nb::dtype<int8_t>()) tensor.type = Tensor::I8;
    else if (array.dtype() == nb::dtype<uint8_t>()) tensor.type = Tensor::U8;
    else if (array.dtype() != nb::dtype<float>()) throw ModelError(nb::cast<std::string>(name) + " has another type");
    for (size_t i = 0; i < array.ndim(); ++i) tensor.shape.push_back(array.shape(i));
    tensors.emplace(nb::cast<std::string>(name), std::move(tensor));
  }
  return tensors;
}

// A model that keeps its arrays.
struct PyModel : Model {
  nb::dict arrays;
  PyModel(const std::string& kit, const Sizes& sizes, const nb::dict& given)
      : Model(kit_named(kit), sizes, tensors_of(given)), arrays(given) {}
};

struct PySentence : Sentence {
  Array<float, 1> biases[2];
};

void check_bias(const Array<float, 1>& bias, const Model& model) {
  if (bias.shape(0) != size_t(model.sizes.pieces)) throw std::invalid_argument("a bias of another vocabulary");
}

const float* checked_positions(const Array<float, 2>& positions, size_t needed, const Model& model) {
  if (positions.shape(0) < needed || positions.shape(1) != size_t(model.sizes.d))
    throw std::invalid_argument("positions of other sizes");
  return positions.data();
}

void check_cache(const KVCache& cache, const Model& model) {
  if (!cache.fits(model)) throw std::invalid_argument("a KV cache of another model");
}

// A decoder that keeps what a batch refers to.
struct PyDecoder : Decoder {
  const std::shared_ptr<PyModel> model;
  Array<float, 2> positions;

  explicit PyDecoder(std::shared_ptr<PyModel> of) : Decoder(of), model(std::move(of)) {}

  std::shared_ptr<KVCache> encode(const Ids& source, const Array<float, 2>& given) {
    model->check_ids(source);
    const float* first = checked_positions(given, source.size(), *model);
    auto cache = std::make_shared<KVCache>(*model);
    without_gil([&] { transformer.encode({{&source, cache.get()}}, first); });
    return cache;
  }

  void start(const std::vector<std::shared_ptr<PySentence>>& sentences, const Array<float, 2>& given,
             std::shared_ptr<const Shortlist> shortlist, bool scores, int max_rows, size_t max_bytes, Verify verify) {
    size_t longest = 0;
    for (const auto& sentence : sentences) {
      for (const auto& bias : sentence->biases) check_bias(bias, *model);
      if (sentence->source_cache) check_cache(*sentence->source_cache, *model);
      longest = std::max(longest, sentence->longest());
    }
    Batch batch{{sentences.begin(), sentences.end()}, checked_positions(given, longest, *model), std::move(shortlist),
                scores, std::max(max_rows, 1), max_bytes, verify};
    begin(std::move(batch));
    positions = given;
  }

  size_t go_on(int steps) {
    const size_t left = without_gil([&] { return advance(steps); });
    if (!left) forget();  // with the GIL, which the last owner of a sentence needs
    return left;
  }

  void rows(const std::vector<KVCache*>& sources, const std::vector<KVCache*>& written, const std::vector<int>& kept,
            const std::vector<int>& counts, const Ids& tokens, const Ids& segments, const Array<float, 2>& given,
            bool causal, const std::vector<Array<float, 1>>& biases, Output<int32_t, 1> best, nb::object log_probs,
            nb::object logits, nb::object labels, nb::object label_log_probs);
};

template <class T, size_t N>
T* optional_output(const nb::object& array, size_t first, size_t second = 0) {
  if (array.is_none()) return nullptr;
  const auto output = nb::cast<Output<T, N>>(array, false);
  if (output.shape(0) != first || (N > 1 && output.shape(1) != second)) throw std::invalid_argument("an output of other sizes");
  return output.data();
}

// Append counts[i] rows to sentence i after its first kept[i] rows and choose for all of them.
void PyDecoder::rows(const std::vector<KVCache*>& sources, const std::vector<KVCache*>& written,
                     const std::vector<int>& kept, const std::vector<int>& counts, const Ids& tokens,
                     const Ids& segments, const Array<float, 2>& given, bool causal,
                     const std::vector<Array<float, 1>>& biases, Output<int32_t, 1> best, nb::object log_probs,
                     nb::object logits, nb::object labels, nb::object label_log_probs) {
  const size_t sentences = sources.size(), n = tokens.size(), pieces = size_t(model->sizes.pieces);
  for (const size_t size : {written.size(), kept.size(), counts.size(), biases.size()})
    if (size != sentences) throw std::invalid_argument("sentences of other counts");
  model->check_ids(tokens);
  for (const int32_t segment : segments) model->check_segments(segment + 1);
  size_t total = 0;
  for (size_t i = 0; i < sentences; ++i) {
    check_cache(*sources[i], *model), check_bias(biases[i], *model);
    const bool shared = std::find(written.begin(), written.begin() + i, written[i]) != written.begin() + i;
    if (shared || !written[i]->is_for(*model) || kept[i] < 0 || kept[i] > written[i]->positions() || counts[i] < 1)
      throw std::invalid_argument("each sentence writes at least one row into a KV cache of its own");
    total += counts[i];
  }
  if (total != n || segments.size() != n || best.shape(0) != n) throw std::invalid_argument("rows of other counts");
  const float* position = checked_positions(given, causal ? n : 1, *model);
  float* scores = optional_output<float, 1>(log_probs, n);
  float* all = optional_output<float, 2>(logits, n, pieces);
  float* label_scores = optional_output<float, 1>(label_log_probs, n);
  const Ids wanted = labels.is_none() ? Ids() : nb::cast<Ids>(labels);
  if (!wanted.empty()) model->check_ids(wanted);
  if (label_scores && (wanted.size() != n || !scores)) throw std::invalid_argument("labels of other counts");
  std::vector<DecoderInput> inputs;
  for (size_t i = 0, first = 0; i < sentences; first += counts[i++])
    inputs.push_back({sources[i], written[i], tokens.data() + first, segments.data() + first, counts[i], position});
  without_gil([&] {
    for (size_t i = 0; i < sentences; ++i) written[i]->truncate(kept[i]);
    transformer.decode(inputs, causal);
    int32_t* columns = best.data();
    for (size_t i = 0, first = 0; i < sentences;) {
      const float* bias = biases[i].data();
      int count = 0;
      for (; i < sentences && biases[i].data() == bias; ++i) count += counts[i];
      transformer.choose(model->vocabulary, bias, int(first), count, columns + first, scores ? scores + first : nullptr,
                         all ? all + first * pieces : nullptr);
      for (size_t row = first; row < first + count; ++row) {
        if (columns[row] < 0) columns[row] = EOS;  // every piece is forbidden
        if (label_scores) label_scores[row] = transformer.log_prob(bias, int(row), wanted[row]);
      }
      first += count;
    }
  });
}

// Return the least number of seconds that a product of so many rows takes in so many rounds.
double time_product(const std::string& name, int in, int out, int n, int rounds) {
  const Kit& kit = kit_named(name);
  if (in < 1 || out < 1 || in % UNIT || out % UNIT || in > MAX_INPUTS || n < 1) throw std::invalid_argument("multiples of 32");
  OwnedLinear map;
  map.reserve(in, out, true, true);
  for (size_t i = 0; i < size_t(in) * out; ++i) map.packed[i] = int8_t(i * 2654435761u >> 24);
  Buffer<uint8_t> rows;
  rows.reserve(n * kit.row_bytes(in));
  for (size_t i = 0; i < n * kit.row_bytes(in); i += kit.row_bytes(1)) rows[i] = uint8_t(i * 40503u >> 8);
  Buffer<float> x;
  Buffer<Best> best;
  x.reserve(size_t(n) * out), best.reserve(n);
  double least = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const auto before = std::chrono::steady_clock::now();
    if (out > in) kit.choose(map, rows.get(), n, map.bias, false, best.get(), nullptr);
    else kit.add_residual(map, rows.get(), n, x.get());
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
  }
  return least;
}

}  // namespace
}  // namespace recoversat

NB_MODULE(_engine, m) {
  using namespace recoversat;
  m.doc() = "The CPU engine: int8 models, each sentence on one core.";
  nb::set_leak_warnings(false);  // a thread that sleeps since `at_exit` keeps its objects
  nb::exception<ModelError>(m, "ModelError", PyExc_ValueError);
  m.def("kits", &kits, "Return the kits that this processor runs, the fastest first.");
  m.def("time_product", &time_product, "kit"_a, "inputs"_a, "outputs"_a, "rows"_a, "rounds"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Return the least seconds that a product of rows takes, with the best columns where there are more outputs.");

  nb::class_<PyModel>(m, "Model")
      .def(
          "__init__",
          [](PyModel* model, const std::string& kit, const nb::dict& tensors, int d_model, int d_hidden, int n_heads,
             int encoder_layers, int decoder_layers, int pieces, int segments) {
            new (model) PyModel(kit, {d_model, d_hidden, n_heads, encoder_layers, decoder_layers, pieces, segments}, tensors);
          },
          "kit"_a, "tensors"_a, nb::kw_only(), "d_model"_a, "d_hidden"_a, "n_heads"_a, "encoder_layers"_a,
          "decoder_layers"_a, "pieces"_a, "segments"_a);

  nb::class_<KVCache>(m, "KVCache")
      .def("__init__", [](KVCache* cache, const PyModel& model) { new (cache) KVCache(model); }, "model"_a)
      .def("copy", [](const KVCache& cache) {
        auto copy = std::make_shared<KVCache>();
        copy->copy(cache);
        return copy;
      });

  nb::class_<PySentence>(m, "Sentence")
      .def(
          "__init__",
          [](PySentence* sentence, Ids source, std::vector<int> max_steps, Array<float, 1> bias, Array<float, 1> first_bias,
             std::shared_ptr<KVCache> source_cache) {
            new (sentence) PySentence{{std::move(source), std::move(max_steps), bias.data(), first_bias.data(),
                                       std::move(source_cache), {}, {}, 0}, {bias, first_bias}};
          },
          "source"_a, "max_steps"_a, "bias"_a, "first_bias"_a, "source_cache"_a.none())
      .def_prop_ro("longest", &PySentence::longest)
      .def_ro("segments", &PySentence::segments)
      .def_ro("log_probs", &PySentence::log_probs)
      .def_ro("steps", &PySentence::steps);

  nb::class_<Shortlist>(m, "Shortlist")
      .def("__init__",
           [](Shortlist* list, Array<int32_t, 2> likeliest, Array<int32_t, 1> tags, Array<uint64_t, 2> common,
              Array<uint64_t, 1> allowed) {
             const auto copied = [](const auto& array) {
               return std::vector(array.data(), array.data() + array.size());
             };
             new (list) Shortlist(int(likeliest.shape(0)), copied(likeliest), copied(tags), copied(common), copied(allowed));
           },
           "likeliest"_a, "tags"_a, "common"_a, "allowed"_a)
      .def("find",
           [](const Shortlist& list, const Ids& source, const Ids& forced) {
             Ids found;
             list.find(source, forced, found);
             return found;
           },
           "source"_a, "forced"_a, "Return the pieces of a source; none: the whole vocabulary.");

  nb::enum_<Verify>(m, "Verify")
      .value("NO", Verify::NO)
      .value("YES", Verify::YES)
      .value("TIME_ONLY", Verify::TIME_ONLY);

  nb::class_<PyDecoder>(m, "Decoder")
      .def(nb::init<std::shared_ptr<PyModel>>(), "model"_a)
      .def("encode", &PyDecoder::encode, "source"_a, "positions"_a, "Return the keys and values of a source.")
      .def("begin", &PyDecoder::start, "sentences"_a, "positions"_a, "shortlist"_a.none(), "scores"_a, "max_rows"_a,
           "max_bytes"_a, "verify"_a, "Begin to write sentences.")
      .def("advance", &PyDecoder::go_on, "steps"_a, "Take so many steps; return how many sentences are not finished.")
      .def("rows", &PyDecoder::rows, "sources"_a, "written"_a, "kept"_a, "counts"_a, "tokens"_a, "segments"_a,
           "positions"_a, "causal"_a, "biases"_a, "best"_a, "log_probs"_a.none(), "logits"_a.none(), "labels"_a.none(),
           "label_log_probs"_a.none(), "Append rows to sentences and choose the best piece of each.");

  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&at_exit));
}
