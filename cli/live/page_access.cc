#include "cli/live/page_access.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/report/page.h"

namespace longwave {
namespace {

// No script but page.js, no connection but to events, and no frame around the page.
constexpr char kHeaders[] =
    "\r\nContent-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
    "\r\nX-Frame-Options: DENY"
    "\r\nX-Content-Type-Options: nosniff"
    "\r\nReferrer-Policy: no-referrer"
    "\r\nCross-Origin-Resource-Policy: same-origin"
    "\r\nCache-Control: no-store"
    "\r\nConnection: close\r\n\r\n";

PageAnswer NotFound() { return {.status = "404 Not Found", .body = "not found\n"}; }

}  // namespace

PageAccess::PageAccess(std::string token, std::vector<std::string> hosts)
    : token_(std::move(token)), hosts_(std::move(hosts)) {}

std::string PageAccess::path() const {
  return token_.empty() ? "/" : absl::StrCat("/", token_, "/");
}

bool PageAccess::HasToken(std::string_view target) const {
  const std::string wanted = path();
  return target.size() >= wanted.size() &&
         CRYPTO_memcmp(target.data(), wanted.data(), wanted.size()) == 0;
}

PageAnswer PageAccess::Answer(const PageRequest& request) const {
  if (request.hosts.size() != 1 ||
      std::ranges::find(hosts_, HostAlone(request.hosts[0])) == hosts_.end()) {
    return {.status = "421 Misdirected Request",
            .body = "got another Host, wanted a name or an address of this server\n"};
  }
  const std::string_view target = request.target.substr(0, request.target.find('?'));
  if (!HasToken(target)) return NotFound();
  if (request.method != "GET" && request.method != "HEAD") {
    return {.status = "405 Method Not Allowed", .body = "wanted GET\n"};
  }
  const std::string_view file = target.substr(path().size());
  if (file.empty()) return {.type = "text/html; charset=utf-8", .body = kReportLive};
  if (file == "page.css") return {.type = "text/css; charset=utf-8", .body = kReportCss};
  if (file == "page.js") return {.type = "text/javascript; charset=utf-8", .body = kReportJs};
  if (file == "events") return {.type = "text/event-stream", .is_stream = true};
  return NotFound();
}

std::string Written(const PageAnswer& answer, bool with_body) {
  const std::string length =
      answer.is_stream ? "" : absl::StrCat("\r\nContent-Length: ", answer.body.size());
  return absl::StrCat("HTTP/1.1 ", answer.status, "\r\nContent-Type: ", answer.type, length,
                      kHeaders, with_body ? answer.body : std::string());
}

std::string HostAlone(std::string_view authority) {
  const bool is_bracketed = authority.starts_with('[');
  if (is_bracketed) authority.remove_prefix(1);
  return absl::AsciiStrToLower(
      std::string(authority.substr(0, authority.find(is_bracketed ? ']' : ':'))));
}

}  // namespace longwave
