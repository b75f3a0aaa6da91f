#include "cli/security/member_commands.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/errors.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/config/key_types.h"
#include "common/rpc/coordinator_client.h"
#include "common/security/credentials.h"

namespace longwave {
namespace {

absl::StatusOr<std::unique_ptr<CoordinatorClient>> Connect(const Target& target) {
  LONGWAVE_RETURN_IF_ERROR(CheckCoordinatorAddress(target.address));
  if (target.security.empty()) {
    return InvalidArgument(
        "wanted --security FOLDER, an operator's credentials: `operator` in the coordinator's own "
        "folder, or of `longwave certificate make --role operator`");
  }
  const absl::Time now = absl::Now();
  const absl::Status as_operator =
      CheckCredentials(target.security, OperatorIdentity(), now).status();
  // The coordinator's own folder gives the same rights: an operator has no other in its pod.
  if (!as_operator.ok() &&
      !CheckCredentials(target.security, CoordinatorIdentity(), now).status().ok()) {
    return as_operator;
  }
  return CoordinatorClient::Connect(target.address, absl::Seconds(10), target.security);
}

}  // namespace

absl::Status CreateToken(const Target& target, const TokenCreateOptions& token) {
  TokenWish wish{.uses = token.uses};
  if (!absl::ParseDuration(token.life, &wish.life)) {
    return InvalidArgument("--life: got ", Quotable(token.life), ", wanted a duration such as 30m");
  }
  if (token.shard >= 0 && !token.name.empty())
    return InvalidArgument("got --name and --shard, wanted one of them at most");
  wish.subject =
      token.shard >= 0 ? absl::StrCat("shard/", token.shard) : absl::StrCat("worker/", token.name);
  LONGWAVE_ASSIGN_OR_RETURN(const auto client, Connect(target));
  LONGWAVE_ASSIGN_OR_RETURN(const NewToken made, client->CreateToken(wish));
  PrintLine(stdout, made.token);
  return absl::OkStatus();
}

namespace {

std::string StateOf(const TokenStatus& token) {
  if (token.revoked) return "revoked";
  if (token.expires_in_seconds <= 0) return "expired";
  if (token.used >= token.uses) return "used up";
  const absl::Duration left = absl::Seconds(token.expires_in_seconds);
  return absl::StrCat("good for ", absl::FormatDuration(absl::Floor(left, absl::Seconds(1))));
}

}  // namespace

absl::Status ListTokens(const Target& target) {
  LONGWAVE_ASSIGN_OR_RETURN(const auto client, Connect(target));
  LONGWAVE_ASSIGN_OR_RETURN(const TokenList list, client->ListTokens());
  PrintLine(stdout,
            absl::StrFormat("%-12s %-20s %9s  %-20s %s", "id", "for", "used", "state", "joined"));
  for (const TokenStatus& token : list.tokens) {
    PrintLine(stdout,
              absl::StrFormat("%-12s %-20s %4u/%4u  %-20s %s", token.id,
                              token.subject == "worker/" ? "any worker" : token.subject, token.used,
                              token.uses, StateOf(token), absl::StrJoin(token.joined, ", ")));
  }
  for (const std::string& name : list.expelled) PrintLine(stdout, "expelled: ", name);
  return absl::OkStatus();
}

absl::Status RevokeToken(const Target& target, const std::string& id) {
  LONGWAVE_ASSIGN_OR_RETURN(const auto client, Connect(target));
  return client->RevokeToken(id);
}

namespace {

// Whether the run had no worker of that name. A name that was misspelt leaves its worker in the
// run.
bool HasNever(const std::string& worker, CoordinatorClient& client) {
  const absl::StatusOr<RunStatus> run = client.GetStatus();
  return run.ok() && std::ranges::none_of(run->members, [&worker](const MemberStatus& member) {
           return member.member.name == worker;
         });
}

}  // namespace

absl::Status Expel(const Target& target, const std::string& worker, bool undo, bool whole) {
  LONGWAVE_ASSIGN_OR_RETURN(const auto client, Connect(target));
  LONGWAVE_ASSIGN_OR_RETURN(const Expulsion expulsion, client->Expel(worker, undo, whole));
  PrintLine(stdout, DescribeExpulsion(target, worker, undo, expulsion));
  if (!undo && expulsion.revoked.empty() && HasNever(worker, *client)) {
    PrintLine(
        stdout,
        "nobody has taken part under that name: `longwave status` shows the names of workers");
  }
  return absl::OkStatus();
}

std::string DescribeExpulsion(const Target& target, const std::string& worker, bool undo,
                              const Expulsion& expulsion) {
  if (undo) return absl::StrCat(worker, " may join again, with a new token");
  std::string text = absl::StrCat("expelled ", worker);
  for (const TokenStatus& token : expulsion.revoked) {
    const uint32_t left = token.uses - std::min(token.used, token.uses);
    absl::StrAppend(&text, "; token ", token.id, ", with ", left, left == 1 ? " use" : " uses",
                    " left, is revoked");
  }
  if (expulsion.also_joined.empty()) return text;
  absl::StrAppend(&text,
                  "\nother workers joined with the same tokens; they may be the same machine under "
                  "other names, and still take part. To expel them too:");
  for (const std::string& name : expulsion.also_joined) {
    // The separator "--" permits a name that begins with "-".
    absl::StrAppend(&text, "\n  longwave expel ", target.address, " --security ",
                    ForShell(target.security), " -- ", ForShell(name));
  }
  if (expulsion.also_joined.size() >= kAlsoJoinedMax)
    absl::StrAppend(&text, "\nand perhaps more: longwave token list shows who joined with what");
  return text;
}

}  // namespace longwave
