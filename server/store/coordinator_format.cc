#include "server/store/coordinator_format.h"

#include <bit>
#include <type_traits>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/base/fields.h"
#include "common/base/status_macros.h"
#include "common/wire/byte_stream.h"

namespace longwave {
namespace {

constexpr uint32_t kMagic = 0x6443574c;  // "LWCd" read as bytes

class Writer {
 public:
  template <typename T>
  void operator()(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      out_.Put<uint8_t>(value);
    } else if constexpr (std::is_same_v<T, double>) {
      out_.Put(std::bit_cast<uint64_t>(value));
    } else if constexpr (std::is_same_v<T, std::string>) {
      out_.PutSizedText(value);
    } else if constexpr (std::is_enum_v<T>) {
      out_.Put(static_cast<uint8_t>(value));
    } else if constexpr (std::is_same_v<T, int64_t>) {
      out_.Put(static_cast<uint64_t>(value));
    } else if constexpr (std::is_integral_v<T>) {
      out_.Put<T>(value);
    } else {
      ForEachField(value, [this](auto& field) { (*this)(field); });
    }
  }
  template <typename T>
  void operator()(const std::vector<T>& list) {
    out_.Put<uint64_t>(list.size());
    for (const T& one : list) (*this)(one);
  }
  template <typename T>
  void operator()(const std::optional<T>& value) {
    (*this)(value.has_value());
    if (value) (*this)(*value);
  }
  template <typename A, typename B>
  void operator()(const std::pair<A, B>& pair) {
    (*this)(pair.first);
    (*this)(pair.second);
  }

  void Reserve(size_t bytes) { out_.Reserve(bytes); }
  std::vector<std::byte> Take() { return out_.Take(); }

 private:
  ByteWriter out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : in_(bytes) {}

  template <typename T>
  void operator()(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      const auto byte = in_.Get<uint8_t>();
      good_ &= byte <= 1;
      value = byte == 1;
    } else if constexpr (std::is_same_v<T, double>) {
      value = std::bit_cast<double>(in_.Get<uint64_t>());
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = in_.GetSizedText();
    } else if constexpr (std::is_same_v<T, RunPhase>) {
      value = Known(RunPhase::kStopped);
    } else if constexpr (std::is_same_v<T, WorkerPhase>) {
      value = Known(WorkerPhase::kJoining);
    } else if constexpr (std::is_same_v<T, int64_t>) {
      value = static_cast<int64_t>(in_.Get<uint64_t>());
    } else if constexpr (std::is_integral_v<T>) {
      value = in_.Get<T>();
    } else {
      ForEachField(value, [this](auto& field) { (*this)(field); });
    }
  }
  template <typename T>
  void operator()(std::vector<T>& list) {
    const auto count = in_.Get<uint64_t>();
    // Whatever the count says, it ends where the bytes do.
    for (uint64_t i = 0; i < count && in_.ok(); ++i) (*this)(list.emplace_back());
  }
  template <typename T>
  void operator()(std::optional<T>& value) {
    bool has_value = false;
    (*this)(has_value);
    if (has_value) (*this)(value.emplace());
  }
  template <typename A, typename B>
  void operator()(std::pair<A, B>& pair) {
    (*this)(pair.first);
    (*this)(pair.second);
  }

  absl::Status Status() const {
    if (in_.done() && good_) return absl::OkStatus();
    return DataLoss(good_ ? "its length is not what its fields say"
                          : "a value that is none of its kind");
  }

 private:
  // Enums count from 1.
  template <typename Enum>
  Enum Known(Enum last) {
    const auto byte = in_.Get<uint8_t>();
    good_ &= byte >= 1 && byte <= static_cast<uint8_t>(last);
    return static_cast<Enum>(byte);
  }

  ByteReader in_;
  bool good_ = true;
};

}  // namespace

std::vector<std::byte> Encode(const CoordinatorChanges& changes) {
  constexpr size_t kUsualBytes = 4096;
  Writer out;
  out.Reserve(kUsualBytes);
  out(kMagic);
  out(kCoordinatorFormat);
  out(changes);
  return out.Take();
}

absl::StatusOr<CoordinatorChanges> DecodeCoordinatorChanges(std::span<const std::byte> bytes) {
  Reader in(bytes);
  uint32_t magic = 0;
  uint32_t format = 0;
  in(magic);
  in(format);
  if (magic != kMagic) {
    return FailedPrecondition(absl::StrFormat("magic: got %08x, wanted %08x", magic, kMagic));
  }
  if (format != kCoordinatorFormat) {
    return FailedPrecondition("format: got ", format, ", wanted ", kCoordinatorFormat);
  }
  CoordinatorChanges changes;
  in(changes);
  LONGWAVE_RETURN_IF_ERROR(in.Status());
  if (changes.manifest) LONGWAVE_RETURN_IF_ERROR(Validate(*changes.manifest));
  return changes;
}

}  // namespace longwave
