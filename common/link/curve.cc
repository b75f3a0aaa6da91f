#include "common/link/curve.h"

#include <zmq.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"

namespace longwave {
namespace {

constexpr absl::string_view kKeyMark = "?key=";

std::string FromZ85(const char* text) {
  std::string bytes(kCurveKeyBytes, '\0');
  zmq_z85_decode(reinterpret_cast<uint8_t*>(bytes.data()), text);
  return bytes;
}

}  // namespace

absl::StatusOr<CurveKeys> MakeCurveKeys() {
  char public_key[41], secret_key[41];
  if (zmq_has("curve") != 1 || zmq_curve_keypair(public_key, secret_key) != 0) {
    return Internal("this libzmq was built without CURVE: data cannot be encrypted");
  }
  CurveKeys keys{FromZ85(public_key), FromZ85(secret_key)};
  return keys;
}

std::string WithKey(const std::string& endpoint, std::string_view public_key) {
  if (public_key.empty()) return endpoint;
  return absl::StrCat(endpoint, kKeyMark,
                      absl::BytesToHexString({public_key.data(), public_key.size()}));
}

absl::StatusOr<KeyedEndpoint> SplitKey(const std::string& endpoint) {
  const size_t mark = endpoint.find('?');
  if (mark == std::string::npos) return KeyedEndpoint{endpoint, ""};
  const absl::string_view rest = absl::string_view(endpoint).substr(mark);
  const absl::string_view hex = rest.substr(std::min(kKeyMark.size(), rest.size()));
  if (rest.substr(0, kKeyMark.size()) != kKeyMark || hex.size() != 2 * kCurveKeyBytes ||
      hex.find_first_not_of("0123456789abcdef") != absl::string_view::npos) {
    return InvalidArgument("endpoint \"", endpoint, "\": has no key behind ",
                           "its ?; wanted ?key= and 64 hex digits");
  }
  return KeyedEndpoint{endpoint.substr(0, mark), absl::HexStringToBytes(hex)};
}

void AdmittedKeys::Set(const std::vector<Member>& members) {
  absl::flat_hash_map<std::string, uint32_t> workers;
  workers.reserve(members.size());
  for (const Member& member : members) {
    if (!member.key.empty()) workers[absl::BytesToHexString(member.key)] = member.worker;
  }
  const std::lock_guard lock(mutex_);
  workers_ = std::move(workers);
}

std::optional<uint32_t> AdmittedKeys::WorkerOf(std::string_view key_hex) const {
  const std::lock_guard lock(mutex_);
  const auto found = workers_.find(absl::string_view(key_hex.data(), key_hex.size()));
  if (found == workers_.end()) return std::nullopt;
  return found->second;
}

}  // namespace longwave
