// Converts between the requests of admission_records.h and their messages.
#include <cmath>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/rpc/convert.h"

namespace longwave {
namespace {

constexpr int kHostsMax = 64;
constexpr size_t kHostBytesMax = 253;
constexpr size_t kPemBytesMax = 1 << 16;

// A worker's name; empty for any worker.
absl::Status CheckName(const std::string& name) {
  // Names are printed in logs and on terminals, which would execute control characters.
  if (name.size() > kIdentityNameBytesMax || FindInvalidUtf8(name) != std::string::npos ||
      FindControlCharacter(name, "") != std::string::npos) {
    return InvalidArgument("worker: got ", Quotable(name.substr(0, kIdentityNameBytesMax)),
                           ", wanted at most ", kIdentityNameBytesMax,
                           " bytes of UTF-8 without control characters");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadSubject(const v1::CreateTokenRequest& message) {
  if (message.subject_case() == v1::CreateTokenRequest::kShard)
    return absl::StrCat("shard/", message.shard());
  LONGWAVE_RETURN_IF_ERROR(CheckName(message.worker()));
  return absl::StrCat("worker/", message.worker());
}

absl::Status WriteSubject(const std::string& subject, v1::CreateTokenRequest* message) {
  absl::string_view rest = subject;
  uint32_t shard = 0;
  if (absl::ConsumePrefix(&rest, "worker/")) {
    message->set_worker(std::string(rest));
    return absl::OkStatus();
  }
  if (absl::ConsumePrefix(&rest, "shard/") && absl::SimpleAtoi(rest, &shard)) {
    message->set_shard(shard);
    return absl::OkStatus();
  }
  return InvalidArgument("a token is for: got ", Quotable(subject),
                         ", wanted worker/, worker/NAME or shard/N");
}

}  // namespace

v1::JoinRequest ToProto(const JoinWish& value) {
  v1::JoinRequest message;
  if (value.subject.role == Role::kShard) {
    message.set_shard(value.subject.shard);
  } else {
    message.set_worker(value.subject.worker);
  }
  message.set_request(value.request);
  for (const std::string& host : value.hosts) message.add_hosts(host);
  return message;
}

absl::StatusOr<JoinWish> FromProto(const v1::JoinRequest& message) {
  JoinWish value{.request = message.request()};
  if (const size_t bytes = message.request().size(); bytes > kPemBytesMax)
    return InvalidArgument("request: got ", bytes, " bytes, wanted at most ", kPemBytesMax);
  if (message.subject_case() == v1::JoinRequest::kShard) {
    value.subject = ShardIdentity(message.shard());
  } else {
    LONGWAVE_RETURN_IF_ERROR(CheckName(message.worker()));
    if (message.worker().empty()) return InvalidArgument("worker: got no name, wanted one");
    value.subject = WorkerIdentity(message.worker());
  }
  if (message.hosts_size() > kHostsMax)
    return InvalidArgument("hosts: got ", message.hosts_size(), ", wanted at most ", kHostsMax);
  for (const std::string& host : message.hosts()) {
    const bool is_plain = host.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789.-_:*") == std::string::npos;
    if (host.empty() || host.size() > kHostBytesMax || !is_plain)
      return InvalidArgument("host: got ", Quotable(host), ", wanted a name or an address");
    value.hosts.push_back(host);
  }
  return value;
}

absl::StatusOr<v1::CreateTokenRequest> ToProto(const TokenWish& value) {
  v1::CreateTokenRequest message;
  message.set_life_seconds(absl::ToDoubleSeconds(value.life));
  message.set_uses(value.uses);
  LONGWAVE_RETURN_IF_ERROR(WriteSubject(value.subject, &message));
  return message;
}

absl::StatusOr<TokenWish> FromProto(const v1::CreateTokenRequest& message) {
  if (!std::isfinite(message.life_seconds()))
    return InvalidArgument("life: got a number that is not finite, wanted seconds");
  TokenWish value{.life = absl::Seconds(message.life_seconds()), .uses = message.uses()};
  LONGWAVE_ASSIGN_OR_RETURN(value.subject, ReadSubject(message));
  return value;
}

}  // namespace longwave
