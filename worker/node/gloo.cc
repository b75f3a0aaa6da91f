#define USE_C10D_GLOO
#include <ATen/ops/from_blob.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>
#include <vector>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "worker/node/collective.h"

namespace longwave {
namespace {

using ::c10d::ProcessGroupGloo;

absl::Status Failed(const std::exception& error) {
  return Unavailable("node: gloo: ", error.what());
}

at::Tensor TensorOf(std::span<float> elements) {
  return at::from_blob(elements.data(), {static_cast<int64_t>(elements.size())}, at::kFloat);
}

class Gloo final : public Collective {
 public:
  explicit Gloo(c10::intrusive_ptr<ProcessGroupGloo> group) : group_(std::move(group)) {}

  absl::Status AllToAll(std::span<float> sent, std::span<const int64_t> sent_counts,
                        std::span<float> received,
                        std::span<const int64_t> received_counts) override {
    LONGWAVE_RETURN_IF_ERROR(broken_);
    std::vector<int64_t> to(sent_counts.begin(), sent_counts.end());
    std::vector<int64_t> from(received_counts.begin(), received_counts.end());
    at::Tensor output = TensorOf(received), input = TensorOf(sent);
    try {
      group_->alltoall_base(output, input, from, to)->wait();
    } catch (const std::exception& error) {
      broken_ = Failed(error);
    }
    return broken_;
  }

 private:
  const c10::intrusive_ptr<ProcessGroupGloo> group_;
  absl::Status broken_;
};

// An empty file of rank 0, by which the ranks tell each other their addresses.
absl::StatusOr<std::string> MeetingPlace(NodeLink& link, absl::Duration patience) {
  std::string path;
  if (link.node().rank == 0) {
    std::error_code no_folder;
    path = (std::filesystem::temp_directory_path(no_folder) / "longwave-gloo-XXXXXX").string();
    if (const int file = no_folder ? -1 : mkstemp(path.data()); file < 0)
      path.clear();
    else
      close(file);
  }
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<std::string> paths, link.AllGather(path, patience));
  if (paths[0].empty())
    return Unavailable("node: gloo: rank 0 cannot write into the temporary folder");
  return std::move(paths[0]);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> OpenGloo(NodeLink& link, absl::Duration patience) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string path, MeetingPlace(link, patience));
  const auto options = ProcessGroupGloo::Options::create(
      std::chrono::milliseconds(absl::ToInt64Milliseconds(patience)));
  options->threads = 1;
  const NodeRank node = link.node();
  absl::StatusOr<std::unique_ptr<Collective>> gloo;
  try {
    options->devices.push_back(ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    auto store = c10::make_intrusive<c10d::FileStore>(path, static_cast<int>(node.ranks));
    store->setTimeout(options->timeout);
    gloo = std::make_unique<Gloo>(c10::make_intrusive<ProcessGroupGloo>(
        std::move(store), static_cast<int>(node.rank), static_cast<int>(node.ranks), options));
  } catch (const std::exception& error) {
    gloo = Failed(error);
  }
  // The connections stand at all ranks, or at none for long.
  const absl::Status met = link.AllGather("", patience).status();
  if (node.rank == 0) unlink(path.c_str());
  LONGWAVE_RETURN_IF_ERROR(gloo.status());
  LONGWAVE_RETURN_IF_ERROR(met);
  return gloo;
}

}  // namespace longwave
