#ifndef LONGWAVE_KERNELS_DEVICE_FLOATS_H_
#define LONGWAVE_KERNELS_DEVICE_FLOATS_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "kernels/ops.h"

namespace longwave {

// An array in a backend's memory, zero at first, released with its owner.
class DeviceFloats {
 public:
  static absl::StatusOr<DeviceFloats> Create(const KernelOps* ops, uint64_t count) {
    LONGWAVE_ASSIGN_OR_RETURN(void* memory, ops->allocate(count * sizeof(float)));
    return DeviceFloats(ops, static_cast<float*>(memory));
  }
  DeviceFloats() = default;
  DeviceFloats(DeviceFloats&& other) noexcept
      : ops_(other.ops_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceFloats& operator=(DeviceFloats&& other) noexcept {
    std::swap(ops_, other.ops_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceFloats() {
    if (data_ != nullptr) ops_->release(data_);
  }

  float* get() const { return data_; }

 private:
  DeviceFloats(const KernelOps* ops, float* data) : ops_(ops), data_(data) {}

  const KernelOps* ops_ = nullptr;
  float* data_ = nullptr;
};

}  // namespace longwave

#endif  // LONGWAVE_KERNELS_DEVICE_FLOATS_H_
