#ifndef LONGWAVE_TESTS_EMULATION_TESTING_H_
#define LONGWAVE_TESTS_EMULATION_TESTING_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/launch.cuh"
#include "tests/emulation/orders.h"
#include "tests/emulation/sanitizer.h"

namespace longwave::emulation {

// An array on the emulated device.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) {
    EXPECT_EQ(cudaMalloc(&memory_, size * sizeof(T)), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    EXPECT_EQ(cudaMemcpy(memory_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  ~DeviceArray() { EXPECT_EQ(cudaFree(memory_), cudaSuccess); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return memory_; }
  std::vector<T> Read() const {
    std::vector<T> values(size_);
    EXPECT_EQ(cudaMemcpy(values.data(), memory_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  size_t size_;
  T* memory_ = nullptr;
};

// A kernel to its end.
template <typename... Wanted, typename... Given>
void RunKernel(void (*kernel)(Wanted...), dim3 grid, dim3 block, Given... arguments) {
  ASSERT_EQ(cuda::Launch(kernel, grid, block, nullptr, arguments...), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// A test's choice, until the environment's is restored.
template <typename Order>
class WithOrder {
 public:
  explicit WithOrder(Order order);
  ~WithOrder() { Set(before_); }
  WithOrder(const WithOrder&) = delete;
  WithOrder& operator=(const WithOrder&) = delete;

 private:
  Order before_;
};
template <>
inline WithOrder<ThreadOrder>::WithOrder(ThreadOrder order) : before_(thread_order()) {
  Set(order);
}
template <>
inline WithOrder<StreamOrder>::WithOrder(StreamOrder order) : before_(stream_order()) {
  Set(order);
}

}  // namespace longwave::emulation

#endif  // LONGWAVE_TESTS_EMULATION_TESTING_H_
