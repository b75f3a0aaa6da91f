#ifndef LONGWAVE_KERNELS_DEVICE_FLOATS_H_
#define LONGWAVE_KERNELS_DEVICE_FLOATS_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "kernels/ops.h"

namespace longwave {

// An array in a backend's memory, zero at first, released with its owner; or a part of one.
class DeviceFloats {
 public:
  static absl::StatusOr<DeviceFloats> Create(const KernelOps* ops, uint64_t count) {
    return Create(ops, 0, count);
  }
  // Elements begin … end − 1 of a larger array alone.
  static absl::StatusOr<DeviceFloats> Create(const KernelOps* ops, uint64_t begin, uint64_t end) {
    LONGWAVE_ASSIGN_OR_RETURN(void* memory, ops->allocate((end - begin) * sizeof(float)));
    return DeviceFloats(ops, static_cast<float*>(memory), begin);
  }
  DeviceFloats() = default;
  DeviceFloats(DeviceFloats&& other) noexcept
      : ops_(other.ops_), data_(std::exchange(other.data_, nullptr)), begin_(other.begin_) {}
  DeviceFloats& operator=(DeviceFloats&& other) noexcept {
    std::swap(ops_, other.ops_);
    std::swap(data_, other.data_);
    std::swap(begin_, other.begin_);
    return *this;
  }
  ~DeviceFloats() {
    if (data_ != nullptr) ops_->release(data_);
  }

  // The address that element 0 has, whether or not it is here: kernels index the larger array.
  float* get() const { return data_ - begin_; }

 private:
  DeviceFloats(const KernelOps* ops, float* data, uint64_t begin)
      : ops_(ops), data_(data), begin_(begin) {}

  const KernelOps* ops_ = nullptr;
  float* data_ = nullptr;
  uint64_t begin_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_KERNELS_DEVICE_FLOATS_H_
