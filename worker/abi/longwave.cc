// The functions of longwave.h. Each checks its process, member and arguments, catches exceptions,
// and keeps the error for lw_error.
#include "longwave.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/abi/abi_member.h"
#include "worker/abi/abi_options.h"
#include "worker/abi/abi_status.h"
#include "worker/abi/abi_struct.h"
#include "worker/abi/open_members.h"

using longwave::AbiMember;

// The C name of AbiMember.
struct lw_member {};

namespace {

AbiMember* Of(const lw_member* member) {
  return reinterpret_cast<AbiMember*>(const_cast<lw_member*>(member));
}

// The result of `work`, which is not negative, or the lw_status of its failure.
int64_t Call(absl::FunctionRef<absl::StatusOr<int64_t>()> work) {
  const absl::Status forked = longwave::CheckNotForked();
  if (!forked.ok()) {
    longwave::Told(forked);
    return LW_FORKED;
  }
  try {
    const absl::StatusOr<int64_t> done = work();
    return done.ok() ? *done : longwave::Told(done.status());
  } catch (const std::bad_alloc&) {
    return longwave::Told(longwave::ResourceExhausted("out of memory"));
  } catch (const std::exception& error) {
    return longwave::Told(longwave::Internal(error.what()));
  }
}

// As Call, for a member without another call in progress.
int64_t CallOf(const lw_member* member,
               absl::FunctionRef<absl::StatusOr<int64_t>(AbiMember&)> work) {
  return Call([&]() -> absl::StatusOr<int64_t> {
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

absl::StatusOr<int64_t> Events(const absl::StatusOr<int>& events) {
  if (!events.ok()) return events.status();
  return *events;
}

absl::StatusOr<int64_t> Done(const absl::Status& status) {
  if (!status.ok()) return status;
  return LW_OK;
}

}  // namespace

extern "C" {

uint32_t lw_abi(void) { return LW_ABI; }

const char* lw_version(void) { return LONGWAVE_VERSION; }

const char* lw_error(void) { return longwave::LastError(); }

int lw_set_log_level(int level) {
  return static_cast<int>(Call([&]() -> absl::StatusOr<int64_t> {
    if (level < LW_LOG_DEBUG || level > LW_LOG_ERROR)
      return longwave::InvalidArgument("level: got ", level, ", wanted 0 to 3");
    longwave::SetLogLevel(static_cast<longwave::LogLevel>(level));
    return LW_OK;
  }));
}

int lw_join(const lw_options* options, const lw_tensor* tensors, size_t tensor_count,
            lw_member** member) {
  return static_cast<int>(Call([&]() -> absl::StatusOr<int64_t> {
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
    return LW_OK;
  }));
}

int lw_describe(const lw_member* member, lw_run* run) {
  return static_cast<int>(CallOf(member, [&](AbiMember& entered) {
    return Done(longwave::WriteStruct(entered.Describe(), run, "lw_run"));
  }));
}

const char* lw_configuration(const lw_member* member) {
  const char* text = nullptr;
  CallOf(member, [&](AbiMember& entered) -> absl::StatusOr<int64_t> {
    text = entered.configuration().c_str();
    return LW_OK;
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
  return static_cast<int>(
      Call([&]() -> absl::StatusOr<int64_t> { return Done(longwave::OpsOf(device).status()); }));
}

int lw_begin(lw_member* member, const lw_arrays* arrays) {
  return static_cast<int>(CallOf(member, [&](AbiMember& entered) -> absl::StatusOr<int64_t> {
    LONGWAVE_ASSIGN_OR_RETURN(const lw_arrays read, longwave::ReadStruct(arrays, "lw_arrays"));
    return Events(entered.Begin(read));
  }));
}

int lw_step(lw_member* member, double loss, uint64_t tokens) {
  return static_cast<int>(
      CallOf(member, [&](AbiMember& entered) { return Events(entered.Step(loss, tokens)); }));
}

int lw_pause(lw_member* member) {
  return static_cast<int>(CallOf(member, [](AbiMember& entered) -> absl::StatusOr<int64_t> {
    entered.Pause();
    return LW_OK;
  }));
}

int lw_save(lw_state* state, const char* name, const void* bytes, size_t size) {
  return static_cast<int>(Call([&]() -> absl::StatusOr<int64_t> {
    if (state == nullptr) return longwave::InvalidArgument("state: got NULL");
    return Done(state->Add(name, bytes, size));
  }));
}

int lw_load(const lw_member* member, const char* name, const void** bytes, size_t* size) {
  return static_cast<int>(CallOf(member, [&](AbiMember& entered) -> absl::StatusOr<int64_t> {
    if (name == nullptr || bytes == nullptr || size == nullptr)
      return longwave::InvalidArgument("lw_load: got NULL");
    LONGWAVE_ASSIGN_OR_RETURN(const std::span<const std::byte> found, entered.Loaded(name));
    *bytes = found.data();
    *size = found.size();
    return LW_OK;
  }));
}

int lw_stats(const lw_member* member, lw_figures* figures) {
  return static_cast<int>(CallOf(member, [&](AbiMember& entered) {
    return Done(longwave::WriteStruct(entered.Figures(), figures, "lw_figures"));
  }));
}

void lw_stop(lw_member* member) {
  if (member != nullptr && !longwave::IsForked()) Of(member)->Stop();
}

int lw_finish(lw_member* member) {
  return static_cast<int>(
      CallOf(member, [&](AbiMember& entered) { return Done(entered.Finish()); }));
}

int lw_leave(lw_member* member, const char* failure) {
  return static_cast<int>(
      CallOf(member, [&](AbiMember& entered) { return Done(entered.Leave(failure)); }));
}

void lw_close(lw_member* member) {
  if (member == nullptr || longwave::IsForked()) return;
  longwave::CloseMember(Of(member));
}

}  // extern "C"
