// The functions of longwave.h. Each checks its process, member and arguments, catches exceptions,
// and keeps the error for lw_error.
#include "longwave.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/abi/abi_member.h"
#include "worker/abi/abi_options.h"
#include "worker/abi/abi_struct.h"
#include "worker/abi/open_members.h"

using longwave::AbiMember;

// The C name of AbiMember.
struct lw_member {};

namespace {

AbiMember* Of(const lw_member* member) {
  return reinterpret_cast<AbiMember*>(const_cast<lw_member*>(member));
}

// The calling thread's last message, for lw_error.
std::string& Message() {
  thread_local std::string message;
  return message;
}

int StatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return LW_OK;
    case absl::StatusCode::kInvalidArgument:
      return LW_INVALID;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kNotFound:
      return LW_REFUSED;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return LW_UNAVAILABLE;
    case absl::StatusCode::kCancelled:
      return LW_STOPPED;
    case absl::StatusCode::kAborted:
      return LW_ENDED;
    case absl::StatusCode::kDataLoss:
      return LW_DATA;
    case absl::StatusCode::kResourceExhausted:
      return LW_MEMORY;
    default:
      return LW_INTERNAL;
  }
}

// Keeps the status's message, and returns its lw_status.
int Told(const absl::Status& status) {
  Message() = std::string(status.message());
  return StatusOf(status.code());
}

// The result of `work`, an absl::Status or a StatusOr of a number that is not negative: LW_OK or
// the number, or the lw_status of the failure.
template <typename Work>
auto Call(const Work& work) {
  using Result = decltype(work());
  constexpr bool kIsWide = std::is_same_v<Result, absl::StatusOr<int64_t>>;
  using Number = std::conditional_t<kIsWide, int64_t, int>;
  const absl::Status forked = longwave::CheckNotForked();
  if (!forked.ok()) {
    Told(forked);
    return Number{LW_FORKED};
  }
  try {
    const Result done = work();
    if constexpr (std::is_same_v<Result, absl::Status>) {
      return done.ok() ? Number{LW_OK} : Told(done);
    } else {
      return done.ok() ? *done : Number{Told(done.status())};
    }
  } catch (const std::bad_alloc&) {
    return Number{Told(longwave::ResourceExhausted("out of memory"))};
  } catch (const std::exception& error) {
    return Number{Told(longwave::Internal(error.what()))};
  }
}

// As Call, for a member without another call in progress.
template <typename Work>
auto CallOf(const lw_member* member, const Work& work) {
  return Call([&]() -> decltype(work(*Of(member))) {
    if (member == nullptr) return longwave::InvalidArgument("member: got NULL");
    AbiMember& entered = *Of(member);
    if (!entered.Enter()) {
      return longwave::InvalidArgument(
          "member: another call for it is under way, wanted one at a time");
    }
    struct Exit {
      AbiMember& member;
      ~Exit() { member.Exit(); }
    } const exit{entered};
    return work(entered);
  });
}

}  // namespace

extern "C" {

uint32_t lw_abi(void) { return LW_ABI; }

const char* lw_version(void) { return LONGWAVE_VERSION; }

const char* lw_error(void) { return Message().c_str(); }

int lw_set_log_level(int level) {
  return Call([&]() -> absl::Status {
    if (level < LW_LOG_DEBUG || level > LW_LOG_ERROR)
      return longwave::InvalidArgument("level: got ", level, ", wanted 0 to 3");
    longwave::SetLogLevel(static_cast<longwave::LogLevel>(level));
    return absl::OkStatus();
  });
}

int lw_join(const lw_options* options, const lw_tensor* tensors, size_t tensor_count,
            lw_member** member) {
  return Call([&]() -> absl::Status {
    if (member == nullptr) return longwave::InvalidArgument("member: got NULL");
    *member = nullptr;
    LONGWAVE_ASSIGN_OR_RETURN(longwave::AbiOptions read, longwave::ReadOptions(options));
    LONGWAVE_ASSIGN_OR_RETURN(const longwave::Manifest manifest,
                              longwave::ReadManifest(tensors, tensor_count));
    longwave::NoteProcess();
    LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<AbiMember> made,
                              AbiMember::Join(std::move(read), manifest));
    longwave::AddOpenMember(made.get());
    *member = reinterpret_cast<lw_member*>(made.release());
    return absl::OkStatus();
  });
}

int lw_describe(const lw_member* member, lw_run* run) {
  return CallOf(member, [&](AbiMember& entered) {
    return longwave::WriteStruct(entered.Describe(), run, "lw_run");
  });
}

const char* lw_configuration(const lw_member* member) {
  const char* text = nullptr;
  CallOf(member, [&](AbiMember& entered) {
    text = entered.configuration().c_str();
    return absl::OkStatus();
  });
  return text;
}

int64_t lw_offset(const lw_member* member, size_t tensor) {
  return CallOf(member, [&](AbiMember& entered) -> absl::StatusOr<int64_t> {
    LONGWAVE_ASSIGN_OR_RETURN(const uint64_t offset, entered.Offset(tensor));
    return static_cast<int64_t>(offset);
  });
}

int64_t lw_owned(const lw_member* member, uint32_t rank, lw_range* ranges, size_t capacity) {
  return CallOf(member, [&](AbiMember& entered) -> absl::StatusOr<int64_t> {
    if (ranges == nullptr && capacity > 0) return longwave::InvalidArgument("ranges: got NULL");
    LONGWAVE_ASSIGN_OR_RETURN(const auto owned, entered.Owned(rank));
    for (size_t i = 0; i < std::min(capacity, owned.size()); ++i)
      ranges[i] = {.begin = owned[i].begin, .end = owned[i].end};
    return static_cast<int64_t>(owned.size());
  });
}

int lw_can_use(int device) {
  return Call([&] { return longwave::OpsOf(device).status(); });
}

int lw_begin(lw_member* member, const lw_arrays* arrays) {
  return CallOf(member, [&](AbiMember& entered) -> absl::StatusOr<int> {
    LONGWAVE_ASSIGN_OR_RETURN(const lw_arrays read, longwave::ReadStruct(arrays, "lw_arrays"));
    return entered.Begin(read);
  });
}

int lw_step(lw_member* member, double loss, uint64_t tokens) {
  return CallOf(member, [&](AbiMember& entered) { return entered.Step(loss, tokens); });
}

int lw_pause(lw_member* member) {
  return CallOf(member, [](AbiMember& entered) {
    entered.Pause();
    return absl::OkStatus();
  });
}

int lw_save(lw_state* state, const char* name, const void* bytes, size_t size) {
  return Call([&]() -> absl::Status {
    if (state == nullptr) return longwave::InvalidArgument("state: got NULL");
    return state->Add(name, bytes, size);
  });
}

int lw_load(const lw_member* member, const char* name, const void** bytes, size_t* size) {
  return CallOf(member, [&](AbiMember& entered) -> absl::Status {
    if (name == nullptr || bytes == nullptr || size == nullptr)
      return longwave::InvalidArgument("lw_load: got NULL");
    LONGWAVE_ASSIGN_OR_RETURN(const std::span<const std::byte> found, entered.Loaded(name));
    *bytes = found.data();
    *size = found.size();
    return absl::OkStatus();
  });
}

int lw_stats(const lw_member* member, lw_figures* figures) {
  return CallOf(member, [&](AbiMember& entered) {
    return longwave::WriteStruct(entered.Figures(), figures, "lw_figures");
  });
}

int lw_warn(lw_member* member, const char* text) {
  // As a callback calls it, too, inside another call.
  return Call([&]() -> absl::Status {
    if (member == nullptr) return longwave::InvalidArgument("member: got NULL");
    if (text == nullptr) return longwave::InvalidArgument("text: got NULL");
    Of(member)->Warn(text);
    return absl::OkStatus();
  });
}

void lw_stop(lw_member* member) {
  if (member != nullptr && !longwave::IsForked()) Of(member)->Stop();
}

int lw_finish(lw_member* member) {
  return CallOf(member, [&](AbiMember& entered) { return entered.Finish(); });
}

int lw_leave(lw_member* member, const char* failure) {
  return CallOf(member, [&](AbiMember& entered) { return entered.Leave(failure); });
}

void lw_close(lw_member* member) {
  if (member == nullptr || longwave::IsForked()) return;
  longwave::CloseMember(Of(member));
}

}  // extern "C"
