// Aligned memory that grows and never shrinks.
#pragma once

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace recoversat {

constexpr size_t CACHE_LINE = 64;
constexpr size_t HUGE_PAGE = 1 << 21;

template <class T>
class Buffer {
 public:
  // Make room for `wanted` values, and for half as many more when the buffer grows again; its contents stay.
  void reserve(size_t wanted) {
    if (wanted <= size_) return;
    wanted = std::max(wanted, size_ + size_ / 2);
    const size_t used = size_ * sizeof(T), alignment = wanted * sizeof(T) < 2 * HUGE_PAGE ? CACHE_LINE : HUGE_PAGE;
    const size_t bytes = (wanted * sizeof(T) + alignment - 1) / alignment * alignment;
    T* larger = static_cast<T*>(std::aligned_alloc(alignment, bytes));
    if (!larger) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (alignment == HUGE_PAGE) madvise(larger, bytes, MADV_HUGEPAGE);  // fewer address translations per product
#endif
    if (used) std::memcpy(static_cast<void*>(larger), data_.get(), used);
    std::memset(reinterpret_cast<char*>(larger) + used, 0, bytes - used);
    data_.reset(larger);
    size_ = wanted;
  }

  T* get() const { return data_.get(); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  T& operator[](size_t index) const { return data_.get()[index]; }

 private:
  std::unique_ptr<T, decltype(&std::free)> data_{nullptr, &std::free};
  size_t size_ = 0;
};

}  // namespace recoversat
