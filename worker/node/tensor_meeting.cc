#include "worker/node/tensor_meeting.h"

#include <atomic>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "worker/member/node_message.h"

namespace longwave {
namespace {

// Begins the bytes of a meeting of tensors, so that a rank that is elsewhere is noticed.
constexpr char kTensors[] = "tensors ";

}  // namespace

absl::StatusOr<std::vector<std::string>> TensorMeeting::Meet(std::string_view bytes) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  LONGWAVE_ASSIGN_OR_RETURN(
      std::vector<std::string> all,
      link_->AllGather(absl::StrCat(kTensors, std::string(bytes)), patience_));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (uint32_t r = 0; r < all.size(); ++r) {
    absl::string_view rest = all[r];
    if (absl::ConsumePrefix(&rest, kTensors)) {
      all[r] = std::string(rest);
      continue;
    }
    const absl::StatusOr<NodeMessage> message = DecodeNodeMessage(all[r]);
    if (message.ok() && !message->status.ok()) {
      return absl::Status(message->status.code(),
                          absl::StrCat("rank ", r, " of this node: ", message->status.message()));
    }
    return Internal("node: rank ", r, " has not called for the tensors that rank ", node().rank,
                    " has called for");
  }
  return all;
}

absl::StatusOr<std::vector<std::vector<double>>> TensorMeeting::Gather(
    std::span<const double> mine) {
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      Meet({reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(double)}));
  std::vector<std::vector<double>> values;
  for (const std::string& bytes : all) {
    values.emplace_back(bytes.size() / sizeof(double));
    if (bytes.empty()) continue;  // memcpy takes no null pointer, not even for no bytes
    std::memcpy(values.back().data(), bytes.data(), values.back().size() * sizeof(double));
  }
  return values;
}

}  // namespace longwave
