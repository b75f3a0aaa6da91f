// Streams, events, copies and memory in the emulation: asynchronous work, and refused mistakes.
#include "tests/emulation/runtime.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "tests/emulation/testing.h"

namespace longwave::emulation {
namespace {

constexpr StreamOrder kLazy = {StreamOrder::Kind::kLazy};
constexpr StreamOrder kEager = {StreamOrder::Kind::kEager};

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, flags), cudaSuccess);
  }
  ~Stream() { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { EXPECT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess); }
  ~Event() { EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class PinnedWord {
 public:
  PinnedWord() { EXPECT_EQ(cudaMallocHost(&memory_, sizeof(int)), cudaSuccess); }
  ~PinnedWord() { EXPECT_EQ(cudaFreeHost(memory_), cudaSuccess); }
  PinnedWord(const PinnedWord&) = delete;
  PinnedWord& operator=(const PinnedWord&) = delete;
  int* data() const { return memory_; }
  int& operator*() const { return *memory_; }

 private:
  int* memory_ = nullptr;
};

cudaError_t ToDevice(int* to, const int* from, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, sizeof(int), cudaMemcpyHostToDevice, stream);
}
cudaError_t ToHost(int* to, const int* from, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, sizeof(int), cudaMemcpyDeviceToHost, stream);
}

__global__ void AddOne(int* word) { ++*word; }
__global__ void Double(int* word) { *word *= 2; }

TEST(EmulatedStreams, ACopyToPinnedMemoryIsNotThereBeforeAWait) {
  const WithOrder lazy(kLazy);
  const Stream stream;
  const DeviceArray<int> word(std::vector<int>{41});
  const PinnedWord host;
  *host = -5;
  ASSERT_EQ(cuda::Launch(AddOne, 1, 1, stream, word.data()), cudaSuccess);
  ASSERT_EQ(ToHost(host.data(), word.data(), stream), cudaSuccess);
  EXPECT_EQ(*host, -5);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(*host, 42);
}

TEST(EmulatedStreams, APinnedBufferThatIsReusedTooEarlyArrivesWithItsNewContents) {
  const WithOrder lazy(kLazy);
  const Stream stream;
  const DeviceArray<int> word(1);
  const PinnedWord host;
  *host = 1;
  ASSERT_EQ(ToDevice(word.data(), host.data(), stream), cudaSuccess);
  *host = 2;
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(word.Read(), std::vector<int>{2});
}

TEST(EmulatedStreams, APinnedBufferThatIsFilledTooLateArrivesEmptyWhenWorkRunsAtOnce) {
  const WithOrder eager(kEager);
  const Stream stream;
  const DeviceArray<int> word(1);
  const PinnedWord host;
  ASSERT_EQ(ToDevice(word.data(), host.data(), stream), cudaSuccess);
  *host = 2;
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(word.Read(), std::vector<int>{-1});
}

TEST(EmulatedStreams, PageableMemoryIsReadOrWrittenByTheTimeThatACopyReturns) {
  for (const StreamOrder order : StreamOrders()) {
    const WithOrder with(order);
    const Stream stream;
    const DeviceArray<int> word(1);
    int host = 20;
    ASSERT_EQ(ToDevice(word.data(), &host, stream), cudaSuccess);
    host = 0;
    ASSERT_EQ(cuda::Launch(AddOne, 1, 1, stream, word.data()), cudaSuccess);
    ASSERT_EQ(ToHost(&host, word.data(), stream), cudaSuccess);
    EXPECT_EQ(host, 21);
  }
}

TEST(EmulatedStreams, EventsOrderTwoStreamsAndWithoutThemOneRunsFirst) {
  const auto run = [](bool wait) {
    const Stream first, second;
    const Event done;
    const DeviceArray<int> word(std::vector<int>{3});
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cuda::Launch(AddOne, 1, 1, first, word.data()), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(done, first), cudaSuccess);
    if (wait) {
      EXPECT_EQ(cudaStreamWaitEvent(second, done), cudaSuccess);
    }
    EXPECT_EQ(cuda::Launch(Double, 1, 1, second, word.data()), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(first), cudaSuccess);
    return word.Read()[0];
  };
  for (const StreamOrder order : StreamOrders()) {
    const WithOrder with(order);
    EXPECT_EQ(run(true), 8);
  }
  const WithOrder lazy(kLazy);
  EXPECT_EQ(run(false), 7);
}

TEST(EmulatedStreams, AnEventIsWaitedForAsItWasRecordedLastBeforeTheWait) {
  const WithOrder lazy(kLazy);
  const Stream first, second;
  const Event event;
  const DeviceArray<int> word(std::vector<int>{3});
  ASSERT_EQ(cudaStreamWaitEvent(second, event),
            cudaSuccess);  // never recorded: nothing to wait for
  ASSERT_EQ(cudaEventQuery(event), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event), cudaSuccess);
  ASSERT_EQ(cuda::Launch(AddOne, 1, 1, first, word.data()), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cuda::Launch(Double, 1, 1, second, word.data()), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(word.Read(), std::vector<int>{7});
}

TEST(EmulatedStreams, TheDefaultStreamIsBetweenAllThatIsNotNonBlocking) {
  for (const StreamOrder order : StreamOrders()) {
    const WithOrder with(order);
    const Stream first(cudaStreamDefault), second(cudaStreamDefault);
    const DeviceArray<int> word(std::vector<int>{3});
    ASSERT_EQ(cuda::Launch(AddOne, 1, 1, first, word.data()), cudaSuccess);
    ASSERT_EQ(cuda::Launch(Double, 1, 1, nullptr, word.data()), cudaSuccess);
    ASSERT_EQ(cuda::Launch(AddOne, 1, 1, second, word.data()), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
    EXPECT_EQ(word.Read(), std::vector<int>{9});
  }
  const WithOrder lazy(kLazy);
  const Stream aside;
  const DeviceArray<int> word(std::vector<int>{3});
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(cuda::Launch(AddOne, 1, 1, nullptr, word.data()), cudaSuccess);
  ASSERT_EQ(cuda::Launch(Double, 1, 1, aside, word.data()), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(aside), cudaSuccess);
  EXPECT_EQ(word.Read(), std::vector<int>{7});
}

TEST(EmulatedStreams, WhoAsksAgainAndAgainIsToldInTheEnd) {
  const WithOrder lazy(kLazy);
  const Stream stream;
  const Event done;
  const DeviceArray<int> word(std::vector<int>{0});
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(cuda::Launch(AddOne, 1, 1, stream, word.data()), cudaSuccess);
  }
  ASSERT_EQ(cudaEventRecord(done, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  int asked = 1;
  while (cudaEventQuery(done) == cudaErrorNotReady) ++asked;
  EXPECT_EQ(asked, 6);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "a question is no error";
}

TEST(EmulatedStreams, HostFunctionsRunInTheirPlace) {
  const Stream stream;
  const PinnedWord host;
  const DeviceArray<int> word(1);
  *host = 4;
  ASSERT_EQ(cudaLaunchHostFunc(
                stream, [](void* data) { *static_cast<int*>(data) += 1; }, host.data()),
            cudaSuccess);
  ASSERT_EQ(ToDevice(word.data(), host.data(), stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(word.Read(), std::vector<int>{5});
}

struct Wide {
  int* word;
  int by;
};
__global__ void Add(const Wide wide) { *wide.word += wide.by; }

TEST(EmulatedLaunch, TakesItsArgumentsWhenItIsQueued) {
  const WithOrder lazy(kLazy);
  const DeviceArray<int> word(std::vector<int>{1});
  auto arguments = std::make_unique<Wide>(Wide{word.data(), 10});
  ASSERT_EQ(cuda::Launch(Add, 1, 1, nullptr, *arguments), cudaSuccess);
  arguments->by = 1000;
  arguments.reset();
  EXPECT_EQ(word.Read(), std::vector<int>{11});
}

struct Padded {
  int by;
  int* word;
};
__global__ void AddPadded(const Padded padded) { *padded.word += padded.by; }

// The number and the padding behind it together are an address of the host.
TEST(EmulatedLaunch, TakesNoPaddingForAnAddress) {
  const DeviceArray<int> word(std::vector<int>{1});
  const std::unique_ptr<int> host(new int(0));
  const int* const address = host.get();
  Padded padded{0, word.data()};
  std::memcpy(static_cast<void*>(&padded), &address, sizeof address);
  ASSERT_EQ(cuda::Launch(AddPadded, 1, 1, nullptr, padded), cudaSuccess);
  EXPECT_EQ(word.Read(), std::vector<int>{1 + padded.by});
}

TEST(EmulatedLaunch, RefusesShapesThatNoDeviceHas) {
  const DeviceArray<int> word(std::vector<int>{0});
  const auto launch = [&](dim3 grid, dim3 block) {
    return cuda::Launch(AddOne, grid, block, nullptr, word.data());
  };
  EXPECT_EQ(launch(0, 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, dim3(512, 3)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1, 65536), 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 1), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "Launch has taken its error";
  EXPECT_EQ(word.Read(), std::vector<int>{1});
}

TEST(EmulatedMemory, BeginsAsNaN) {
  const DeviceArray<float> array(1000);
  for (const float value : array.Read()) EXPECT_TRUE(std::isnan(value));
}

TEST(EmulatedMemory, KnowsWhatIsWhere) {
  const DeviceArray<int> device(4);
  const PinnedWord pinned;
  int pageable = 0;
  const auto type = [](const void* memory) {
    cudaPointerAttributes attributes;
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
    return attributes.type;
  };
  EXPECT_EQ(type(device.data()), cudaMemoryTypeDevice);
  EXPECT_EQ(type(device.data() + 3), cudaMemoryTypeDevice);
  EXPECT_EQ(type(device.data() + 4), cudaMemoryTypeUnregistered);
  EXPECT_EQ(type(pinned.data()), cudaMemoryTypeHost);
  EXPECT_EQ(type(&pageable), cudaMemoryTypeUnregistered);
}

TEST(EmulatedMemory, RefusesCopiesThatDoNotFitTheirArrays) {
  const DeviceArray<int> device(4);
  const PinnedWord pinned;
  std::vector<int> host(8);
  const auto copy = [](void* to, const void* from, size_t count, cudaMemcpyKind kind) {
    const cudaError_t error = cudaMemcpy(to, from, count * sizeof(int), kind);
    EXPECT_EQ(cudaGetLastError(), error);
    return error;
  };
  EXPECT_EQ(copy(device.data(), host.data(), 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(copy(device.data(), host.data(), 5, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(host.data(), device.data() + 2, 3, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(copy(pinned.data(), device.data(), 2, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device.data(), host.data(), 1, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(copy(host.data(), device.data(), 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(host.data(), host.data() + 4, 1, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(nullptr, device.data(), 1, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host.data(), 0, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device.data(), 0, 17), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(host.data()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device.data() + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(pinned.data()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(EmulatedMemory, EndsSomewhere) {
  int* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, ~size_t{0} - 100), cudaErrorMemoryAllocation);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  size_t before = 0, during = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  const DeviceArray<int> array(250);
  ASSERT_EQ(cudaMemGetInfo(&during, &total), cudaSuccess);
  EXPECT_EQ(before - during, 1000u);
}

__global__ void Touch(int* word, int at) { word[at] = 0; }

TEST(EmulatedMemoryDeathTest, RefusesToMixTheHostsMemoryAndTheDevices) {
  const DeviceArray<int> device(4);
  const std::unique_ptr<int> host(new int(0));
  EXPECT_DEATH(cuda::Launch(AddOne, 1, 1, nullptr, host.get()),
               "argument 0 of a kernel has the address of host memory in its byte 0");
  if (kChecksStructs) {
    EXPECT_DEATH(cuda::Launch(Add, 1, 1, nullptr, Wide{host.get(), 1}), "address of host memory");
  }
  EXPECT_DEATH(device.data()[2] = 1,
               kAddressSanitizer ? "SEGV" : "the host touched byte 8 of 16 bytes of device memory");
  EXPECT_DEATH(cudaLaunchHostFunc(
                   nullptr, [](void*) { static_cast<void>(cudaDeviceSynchronize()); }, nullptr);
               cudaDeviceSynchronize(), "called the CUDA runtime");
}

// Within the page of an array, where no trap is: told when the kernel ends, or by the sanitizer.
TEST(EmulatedMemoryDeathTest, RefusesAKernelThatWroteBesideAnArray) {
  const DeviceArray<int> device(3);
  for (const int at : {-1, 3}) {
    EXPECT_DEATH(
        RunKernel(Touch, 1, 1, device.data(), at),
        kAddressSanitizer ? "use-after-poison" : "a kernel wrote .* of 12 bytes of device memory");
  }
}

}  // namespace
}  // namespace longwave::emulation
