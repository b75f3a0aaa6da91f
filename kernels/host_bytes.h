#ifndef LONGWAVE_KERNELS_HOST_BYTES_H_
#define LONGWAVE_KERNELS_HOST_BYTES_H_

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "kernels/ops.h"

namespace longwave {

// Memory of KernelOps::allocate_host, released with its owner.
class HostBytes {
 public:
  static absl::StatusOr<std::shared_ptr<HostBytes>> Create(const KernelOps* ops, size_t size) {
    LONGWAVE_ASSIGN_OR_RETURN(void* memory, ops->allocate_host(size));
    return std::make_shared<HostBytes>(ops, static_cast<std::byte*>(memory), size);
  }
  HostBytes(const KernelOps* ops, std::byte* data, size_t size)
      : ops_(ops), data_(data), size_(size) {}
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;
  ~HostBytes() { ops_->release_host(data_); }

  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  const KernelOps* const ops_;
  std::byte* const data_;
  const size_t size_;
};

// Where a payload begins behind `bytes` bytes of others, so that an encoder copies all in one go
// (kPayloadAlignment).
inline size_t AlignedForPayload(size_t bytes) {
  return (bytes + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
}

}  // namespace longwave

#endif  // LONGWAVE_KERNELS_HOST_BYTES_H_
