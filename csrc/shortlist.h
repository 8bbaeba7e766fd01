// Shortlists: which pieces the translation of a source may contain. Sets of pieces are bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace recoversat {

class Shortlist {
 public:
  // likeliest (V, n): translations of each piece; tags (T): pieces that name a direction; common (T + 1, V bits in whole
  // words): pieces in every shortlist of a direction, or of a source without one; allowed (V bits): pieces that may occur.
  Shortlist(int pieces, std::vector<int32_t> likeliest, std::vector<int32_t> tags, std::vector<uint64_t> common,
            std::vector<uint64_t> allowed);

  // Set `found` to the pieces of a source in ascending order, `forced` pieces included. It is empty if the whole
  // vocabulary is to be used: if the shortlist holds more than half of it, or nothing.
  void find(const std::vector<int32_t>& source, const std::vector<int32_t>& forced, std::vector<int32_t>& found) const;

  int pieces() const { return pieces_; }

 private:
  const int pieces_;
  const std::vector<int32_t> likeliest_, tags_;
  const std::vector<uint64_t> common_, allowed_;
};

}  // namespace recoversat
