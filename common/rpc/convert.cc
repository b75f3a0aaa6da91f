#include "common/rpc/convert.h"

#include <cmath>
#include <string>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

constexpr size_t kHostBytesMax = 253;

// The oneof of JoinRequest and CreateTokenRequest; a worker's name may be empty.
template <typename MessageType>
absl::StatusOr<Identity> ReadSubject(const MessageType& message) {
  if (message.subject_case() == MessageType::kShard) return ShardIdentity(message.shard());
  const std::string& name = message.worker();
  // Names are printed in logs and on terminals, which would execute control characters.
  if (name.size() > kIdentityNameBytesMax || FindInvalidUtf8(name) != std::string::npos ||
      FindControlCharacter(name, "") != std::string::npos) {
    return InvalidArgument("worker: got ", Quotable(name.substr(0, kIdentityNameBytesMax)),
                           ", wanted at most ", kIdentityNameBytesMax,
                           " bytes of UTF-8 without control characters");
  }
  return WorkerIdentity(name);
}

template <typename MessageType>
void WriteSubject(const Identity& subject, MessageType* message) {
  if (subject.role == Role::kShard) return message->set_shard(subject.shard);
  message->set_worker(subject.worker);
}

}  // namespace

absl::Status CheckMore(const v1::WorkerHeartbeatRequest& message) {
  constexpr int kLast = v1::WORKER_PHASE_FAILED;  // the coordinator alone sets the others
  const int phase = message.state().phase();
  if (phase <= kLast) return absl::OkStatus();
  return InvalidArgument("WorkerHeartbeatRequest: phase: got ", phase, ", wanted 1 to ", kLast);
}

v1::JoinRequest ToProto(const JoinWish& value) {
  auto message = WriteMessage<v1::JoinRequest>(value);
  WriteSubject(value.subject, &message);
  return message;
}

absl::StatusOr<JoinWish> FromProto(const v1::JoinRequest& message) {
  LONGWAVE_ASSIGN_OR_RETURN(JoinWish value, ReadMessage<JoinWish>(message));
  LONGWAVE_ASSIGN_OR_RETURN(value.subject, ReadSubject(message));
  if (value.subject == WorkerIdentity(""))
    return InvalidArgument("worker: got no name, wanted one");
  for (const std::string& host : value.hosts) {
    const bool is_plain = host.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789.-_:*") == std::string::npos;
    if (host.empty() || host.size() > kHostBytesMax || !is_plain)
      return InvalidArgument("host: got ", Quotable(host), ", wanted a name or an address");
  }
  return value;
}

absl::StatusOr<v1::CreateTokenRequest> ToProto(const TokenWish& value) {
  v1::CreateTokenRequest message;
  message.set_life_seconds(absl::ToDoubleSeconds(value.life));
  message.set_uses(value.uses);
  const bool is_for_any = value.subject == SubjectOf(WorkerIdentity(""));
  LONGWAVE_ASSIGN_OR_RETURN(
      const Identity subject,
      is_for_any ? absl::StatusOr<Identity>(WorkerIdentity("")) : ParseIdentity(value.subject));
  WriteSubject(subject, &message);
  return message;
}

absl::StatusOr<TokenWish> FromProto(const v1::CreateTokenRequest& message) {
  if (!std::isfinite(message.life_seconds()))
    return InvalidArgument("life: got a number that is not finite, wanted seconds");
  LONGWAVE_ASSIGN_OR_RETURN(const Identity subject, ReadSubject(message));
  return TokenWish{.life = absl::Seconds(message.life_seconds()),
                   .uses = message.uses(),
                   .subject = SubjectOf(subject)};
}

}  // namespace longwave
