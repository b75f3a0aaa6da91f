#ifndef LONGWAVE_CLI_LIVE_READER_H_
#define LONGWAVE_CLI_LIVE_READER_H_

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/time/time.h"
#include "cli/live/live_server.h"
#include "cli/live/page_access.h"

namespace longwave {

using WebError = boost::system::error_code;
using WebText = std::shared_ptr<const std::string>;

// A connection of the live page's server: one request, and its answer, which for events has no end.
// All calls are of the server's thread; handlers that wait keep it alive.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual void Send(WebText text) = 0;  // of a page; one that is too far behind is closed
  virtual void Finish() = 0;            // of a page: closes once everything is sent
  virtual void Close() = 0;
};

// The server, as its readers call it.
class ReaderHost {
 public:
  virtual ~ReaderHost() = default;
  virtual const PageAccess& access() const = 0;
  // The reader has become a page; false: there are too many. Gives it the whole.
  virtual bool AddPage(Reader* reader) = 0;
  virtual void Remove(Reader* reader) = 0;
};

// Stream: beast::tcp_stream, or beast::ssl_stream of it.
template <typename Stream>
class StreamReader final : public Reader,
                           public std::enable_shared_from_this<StreamReader<Stream>> {
 public:
  template <typename... Arguments>
  explicit StreamReader(ReaderHost* host, Arguments&&... arguments)
      : host_(host), stream_(std::forward<Arguments>(arguments)...) {
    parser_.header_limit(LiveServer::kRequestBytesMax);
  }
  ~StreamReader() override { host_->Remove(this); }

  void Begin() {
    Expire(LiveServer::kRequestPatience);
    if constexpr (kIsTls) {
      stream_.async_handshake(boost::asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](WebError error) {
                                if (!error) self->Read();
                              });
    } else {
      Read();
    }
  }

  void Send(WebText text) override {
    if (unsent_.size() >= LiveServer::kUnsentMax) return Close();
    unsent_.push_back(std::move(text));
    if (unsent_.size() == 1) Write();
  }

  void Finish() override {
    ends_ = true;
    if (unsent_.empty()) Close();
  }

  void Close() override { boost::beast::get_lowest_layer(stream_).close(); }

 private:
  static constexpr bool kIsTls = !std::is_same_v<Stream, boost::beast::tcp_stream>;

  void Expire(absl::Duration patience) {
    boost::beast::get_lowest_layer(stream_).expires_after(absl::ToChronoSeconds(patience));
  }

  void Read() {
    boost::beast::http::async_read_header(
        stream_, buffer_, parser_, [self = this->shared_from_this()](WebError error, size_t) {
          namespace http = boost::beast::http;
          if (error == http::error::header_limit || error == http::error::buffer_overflow) {
            self->Answer({.status = "431 Request Header Fields Too Large"}, true);
          } else if (error &&
                     error.category() == make_error_code(http::error::bad_method).category() &&
                     error != http::error::end_of_stream) {
            self->Answer({.status = "400 Bad Request", .body = "wanted an HTTP/1 request\n"}, true);
          } else if (!error) {
            self->AnswerRequest();
          }
        });
  }

  void AnswerRequest() {
    const auto& head = parser_.get();
    const auto view = [](boost::beast::string_view text) {
      return std::string_view(text.data(), text.size());
    };
    PageRequest request = {.method = view(head.method_string()), .target = view(head.target())};
    const auto [first, last] = head.equal_range(boost::beast::http::field::host);
    for (auto field = first; field != last; ++field) request.hosts.push_back(view(field->value()));
    const bool with_body = request.method != "HEAD";
    PageAnswer answer = host_->access().Answer(request);
    if (answer.is_stream && with_body) {
      // The head goes first.
      unsent_.push_back(std::make_shared<std::string>(Written(answer, true)));
      if (host_->AddPage(this)) return Write();
      unsent_.clear();
      answer = {.status = "503 Service Unavailable", .body = "too many pages are open\n"};
    }
    Answer(answer, with_body);
  }

  void Answer(const PageAnswer& answer, bool with_body) {
    ends_ = true;
    unsent_.push_back(std::make_shared<std::string>(Written(answer, with_body)));
    Write();
  }

  void Write() {
    Expire(LiveServer::kAnswerPatience);
    boost::asio::async_write(stream_, boost::asio::buffer(*unsent_.front()),
                             [self = this->shared_from_this()](WebError error, size_t) {
                               if (error) return;
                               self->unsent_.pop_front();
                               if (!self->unsent_.empty()) return self->Write();
                               boost::beast::get_lowest_layer(self->stream_).expires_never();
                               if (self->ends_) self->End();
                               if (!self->ends_) self->AwaitEnd();
                             });
  }

  // A page sends nothing more, so what arrives is its end.
  void AwaitEnd() {
    if (std::exchange(awaits_, true)) return;
    stream_.async_read_some(boost::asio::buffer(rest_),
                            [self = this->shared_from_this()](WebError, size_t) { self->Close(); });
  }

  // Ends well: a connection that is closed with unread bytes may lose its answer.
  void End() {
    Expire(absl::Seconds(1));
    if constexpr (kIsTls) {
      stream_.async_shutdown([self = this->shared_from_this()](WebError) {});
    } else {
      WebError ignored;
      stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
      Drain();
    }
  }

  void Drain() {
    stream_.async_read_some(boost::asio::buffer(rest_),
                            [self = this->shared_from_this()](WebError error, size_t) {
                              if (!error) self->Drain();
                            });
  }

  ReaderHost* const host_;
  Stream stream_;
  boost::beast::flat_buffer buffer_{LiveServer::kRequestBytesMax + 1024};
  boost::beast::http::request_parser<boost::beast::http::empty_body> parser_;
  char rest_[4096];
  std::deque<WebText> unsent_;  // the first one is under way
  bool ends_ = false;
  bool awaits_ = false;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_LIVE_READER_H_
