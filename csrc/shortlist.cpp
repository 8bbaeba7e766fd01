#include "shortlist.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace recoversat {

Shortlist::Shortlist(int pieces, std::vector<int32_t> likeliest, std::vector<int32_t> tags, std::vector<uint64_t> common,
                     std::vector<uint64_t> allowed)
    : pieces_(pieces), likeliest_(std::move(likeliest)), tags_(std::move(tags)), common_(std::move(common)),
      allowed_(std::move(allowed)) {
  const size_t words = (size_t(std::max(pieces, 0)) + 63) / 64;
  if (pieces < 1 || likeliest_.size() % pieces || allowed_.size() != words ||
      common_.size() != (tags_.size() + 1) * words)
    throw std::invalid_argument("a shortlist of other sizes");
  for (const auto* ids : {&likeliest_, &tags_})
    for (const int32_t id : *ids)
      if (id < 0 || id >= pieces) throw std::invalid_argument("a shortlist names " + std::to_string(id) + ", which is no piece");
}

void Shortlist::find(const std::vector<int32_t>& source, const std::vector<int32_t>& forced,
                     std::vector<int32_t>& found) const {
  const size_t words = allowed_.size(), each = likeliest_.size() / pieces_;
  const int32_t first = source.empty() ? -1 : source[0];
  const uint64_t* common = common_.data() + (std::find(tags_.begin(), tags_.end(), first) - tags_.begin()) * words;
  std::vector<uint64_t> set(common, common + words);
  const auto insert = [&](int32_t piece) { set[piece / 64] |= uint64_t(1) << piece % 64; };
  for (const int32_t piece : source) {
    if (piece < 0 || piece >= pieces_) continue;  // padding of the vocabulary
    insert(piece);
    std::for_each_n(likeliest_.begin() + size_t(piece) * each, each, insert);
  }
  for (const int32_t piece : forced) {
    if (piece < 0 || piece >= pieces_)
      throw std::invalid_argument("ids from 0 to " + std::to_string(pieces_ - 1) + " can be forced");
    insert(piece);
  }
  found.clear();
  for (size_t word = 0; word < words; ++word)
    for (uint64_t bits = set[word] & allowed_[word]; bits; bits &= bits - 1)
      found.push_back(int32_t(64 * word) + __builtin_ctzll(bits));
  if (2 * found.size() > size_t(pieces_)) found.clear();
}

}  // namespace recoversat
