#include "worker/check_device.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/layout/layout.h"
#include "kernels/device_floats.h"
#include "kernels/ops.h"
#include "worker/models/device.h"
#include "worker/models/node_tensors.h"
#include "worker/node/collective.h"
#include "worker/ranks.h"

namespace longwave {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr int kMeetings = 200;
constexpr int kTries = 4;
constexpr uint32_t kElements = uint32_t{1} << 22;

absl::StatusOr<absl::Duration> Shortest(absl::FunctionRef<absl::Status()> call) {
  absl::Duration shortest = absl::InfiniteDuration();
  for (int i = 0; i < kTries; ++i) {
    const absl::Time began = MonotonicNow();
    LONGWAVE_RETURN_IF_ERROR(call());
    shortest = std::min(shortest, MonotonicNow() - began);
  }
  return shortest;
}

// All ranks call.
absl::StatusOr<std::string> MeasureNode(const Ranks& ranks, const KernelOps* ops, Exec exec) {
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout,
                            Layout::Create({{{"measured", {1024, kElements / 1024}}}}, {}));
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<NodeTensors> tensors,
                            ranks.OpenTensors(&layout, ops, exec, /*metrics=*/nullptr, OpenGloo));
  const absl::StatusOr<DeviceFloats> terms = DeviceFloats::Create(ops, kElements);
  const absl::StatusOr<DeviceFloats> sums = DeviceFloats::Create(ops, kElements);
  LONGWAVE_RETURN_IF_ERROR(ranks.Agree(terms.ok() ? sums.status() : terms.status()));
  const auto meet = [&] { return ranks.link()->AllGather("", kPatience).status(); };
  LONGWAVE_ASSIGN_OR_RETURN(const absl::Duration meetings, Shortest([&]() -> absl::Status {
                              for (int i = 0; i < kMeetings; ++i) LONGWAVE_RETURN_IF_ERROR(meet());
                              return absl::OkStatus();
                            }));
  const auto rate = [&](absl::Duration took) {
    return kElements * sizeof(float) / absl::ToDoubleSeconds(took);
  };
  LONGWAVE_ASSIGN_OR_RETURN(const absl::Duration summed, Shortest([&] {
                              return tensors->ReduceToOwners(terms->get(), nullptr, sums->get());
                            }));
  LONGWAVE_ASSIGN_OR_RETURN(const absl::Duration gathered, Shortest([&] {
                              return Spread(*tensors, tensors->owned(), kElements, sums->get());
                            }));
  return absl::StrCat("node ", absl::ToDoubleSeconds(meetings / kMeetings), " ", rate(summed), " ",
                      rate(gathered));
}

// At all ranks.
absl::StatusOr<std::string> CheckNode(const std::string& asked, uint32_t count,
                                      const std::string& node_place,
                                      const std::vector<std::string>& command) {
  LONGWAVE_ASSIGN_OR_RETURN(const Ranks ranks, Ranks::Open(node_place, command, [&] {
                              return ParseConfig("{}", "--ranks",
                                                 {absl::StrCat("train.ranks=", count),
                                                  absl::StrCat("train.micro_batches=", count)});
                            }));
  const absl::StatusOr<Device> device = OpenDevice(asked);
  LONGWAVE_RETURN_IF_ERROR(ranks.AgreeOnDevice(device));
  return MeasureNode(ranks, device->ops, {.stream = device->stream});
}

}  // namespace

int CheckDevice(const std::string& asked, uint32_t ranks, const std::string& node_place,
                const std::vector<std::string>& command) {
  if (!node_place.empty()) return CheckNode(asked, ranks, node_place, command).ok() ? 0 : 1;
  const absl::StatusOr<Device> device = OpenDevice(asked);
  if (!device.ok()) return ExitStatus("error: longwave-worker", device.status());
  PrintLine(stdout, absl::StrCat("device ", device->ops->on_device ? "cuda" : "cpu"));
  if (!device->why_not_cuda.empty())
    PrintLine(stdout, absl::StrCat("why not cuda ", device->why_not_cuda));
  if (ranks <= 1) return 0;
  const absl::StatusOr<std::string> node = CheckNode(asked, ranks, node_place, command);
  PrintLine(stdout,
            node.ok() ? *node : absl::StrCat("why no node ", std::string(node.status().message())));
  return 0;
}

}  // namespace longwave
