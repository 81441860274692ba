#include "web_api/curl.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>

#include "base/error.h"
#include "base/os/file.h"
#include "base/os/library.h"

namespace tachy::web_api {
namespace {

// The functions of libcurl, looked up once.
struct CurlApi {
  os::Library library;
  std::string why;  // why there is none

  decltype(curl_global_init)* global_init = nullptr;
  decltype(curl_easy_init)* init = nullptr;
  decltype(curl_easy_cleanup)* cleanup = nullptr;
  decltype(curl_easy_setopt)* set = nullptr;
  decltype(curl_easy_perform)* perform = nullptr;
  decltype(curl_easy_getinfo)* info = nullptr;
  decltype(curl_easy_strerror)* text = nullptr;
  decltype(curl_slist_append)* append = nullptr;
  decltype(curl_slist_free_all)* free_list = nullptr;
  decltype(curl_url)* url = nullptr;
  decltype(curl_url_cleanup)* url_cleanup = nullptr;
  decltype(curl_url_set)* url_set = nullptr;
  decltype(curl_url_get)* url_get = nullptr;
  decltype(curl_free)* free = nullptr;

  CurlApi() {
    std::string reason;
    for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
      if (!library) library = os::Library::open(name, reason);
    if (!library) why = "libcurl.so.4 was not found (Debian's package libcurl4 has it): " + reason;
    find("curl_global_init", global_init), find("curl_easy_init", init), find("curl_easy_cleanup", cleanup);
    find("curl_easy_setopt", set), find("curl_easy_perform", perform), find("curl_easy_getinfo", info);
    find("curl_easy_strerror", text), find("curl_slist_append", append);
    find("curl_slist_free_all", free_list), find("curl_url", url), find("curl_url_cleanup", url_cleanup);
    find("curl_url_set", url_set), find("curl_url_get", url_get), find("curl_free", free);
    if (why.empty() && global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) why = "libcurl cannot begin";
  }

 private:
  template <class Function>
  void find(const char* name, Function*& to) {
    if (!why.empty()) return;
    to = reinterpret_cast<Function*>(library.symbol(name));
    if (!to) why = std::string("libcurl is too old: it has no ") + name;
  }
};

const CurlApi& api() {
  static const CurlApi found;  // is never closed
  check(found.why.empty(), ErrorCode::unsupported, "{}", found.why);
  return found;
}

// A call that is under way, as libcurl's callbacks see it.
struct Transfer {
  const HttpCall& call;
  const CurlApi& curl;
  CURL* handle = nullptr;
  uint64_t bytes = 0;
  bool refused = false, too_large = false;
  os::File upload = {};
};

bool cancelled(const HttpCall& call) { return call.cancel && *call.cancel; }

size_t on_bytes(char* data, size_t size, size_t count, void* user) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  transfer.bytes += bytes;
  transfer.too_large = transfer.bytes > transfer.call.most_bytes;
  if (transfer.too_large) return 0;
  long status = 0;
  transfer.curl.info(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200 || !transfer.call.take) return bytes;
  return transfer.call.take({data, bytes}) ? bytes : 0;
}

size_t on_upload(char* to, size_t size, size_t count, void* user) {
  std::error_code error;
  const size_t bytes = static_cast<Transfer*>(user)->upload.read(to, size * count, error);
  return error ? CURL_READFUNC_ABORT : bytes;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return cancelled(static_cast<Transfer*>(user)->call) ? 1 : 0;
}

// The address here is the one that is connected to, whatever a name server says at another time.
curl_socket_t on_open(void* user, curlsocktype purpose, curl_sockaddr* to) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  const auto address = os::ip_address(&to->addr, to->addrlen);
  const bool fine = purpose == CURLSOCKTYPE_IPCXN && address &&
                    (!transfer.call.may_connect || transfer.call.may_connect(*address));
  if (!fine) {
    transfer.refused = true;
    return CURL_SOCKET_BAD;
  }
  return static_cast<curl_socket_t>(os::open_socket(to->family, to->socktype, to->protocol));
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

void set_rules(const CurlApi& curl, CURL* handle, const HttpCall& call, Transfer& transfer) {
  const auto set = [&](CURLoption option, auto value) {
    const CURLcode code = curl.set(handle, option, value);
    check(code == CURLE_OK, ErrorCode::unsupported, "libcurl: {} (option {})", curl.text(code), int{option});
  };
  set(CURLOPT_URL, call.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_PROXY, "");
  set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "tachyscope");
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(call.connect_seconds * 1000));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(call.seconds * 1000));
  set(CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(call.most_bytes));
  set(CURLOPT_LOW_SPEED_LIMIT, call.silent_seconds > 0 ? 1L : 0L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(call.silent_seconds));
  set(CURLOPT_WRITEFUNCTION, on_bytes);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, on_progress);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
  set(CURLOPT_OPENSOCKETFUNCTION, on_open);
  set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(&transfer));
  if (!call.method.empty()) set(CURLOPT_CUSTOMREQUEST, call.method.c_str());
  if (!call.upload.empty()) {
    std::error_code error;
    transfer.upload = os::File(call.upload, os::OpenAs::input, error);
    const uint64_t bytes = error ? 0 : transfer.upload.facts(error).bytes;
    check(!error, ErrorCode::io, "{}: cannot be read: {}", call.upload.filename().string(), error.message());
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(bytes));
    set(CURLOPT_READFUNCTION, on_upload);
    set(CURLOPT_READDATA, static_cast<void*>(&transfer));
  }
  if (!call.body) return;
  set(CURLOPT_POST, 1L);
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body->size()));
  set(CURLOPT_POSTFIELDS, call.body->c_str());
}

}  // namespace

void need_curl() { api(); }

std::optional<UrlParts> url_parts(const std::string& url) {
  const CurlApi& curl = api();
  const std::unique_ptr<CURLU, decltype(curl_url_cleanup)*> handle(curl.url(), curl.url_cleanup);
  if (url.size() > 8000 || curl.url_set(handle.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK)
    return std::nullopt;
  const auto part = [&](CURLUPart what, unsigned flags = 0) {
    char* text = nullptr;
    std::string out;
    if (curl.url_get(handle.get(), what, &text, flags) == CURLUE_OK && text) out = text;
    curl.free(text);
    return out;
  };
  UrlParts out{.scheme = lower(part(CURLUPART_SCHEME)), .host = lower(part(CURLUPART_HOST))};
  out.user = !part(CURLUPART_USER).empty() || !part(CURLUPART_PASSWORD).empty();
  const std::string port = part(CURLUPART_PORT, CURLU_DEFAULT_PORT);
  std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (out.host.starts_with("[") && out.host.ends_with("]"))
    out.host = out.host.substr(1, out.host.size() - 2);
  while (out.host.ends_with(".")) out.host.pop_back();
  return out;
}

HttpAnswer http_call(const HttpCall& call) {
  const CurlApi& curl = api();
  const std::unique_ptr<CURL, decltype(curl_easy_cleanup)*> handle(curl.init(), curl.cleanup);
  check(handle != nullptr, ErrorCode::out_of_memory, "libcurl has no memory");
  Transfer transfer{.call = call, .curl = curl, .handle = handle.get()};
  set_rules(curl, handle.get(), call, transfer);
  std::unique_ptr<curl_slist, decltype(curl_slist_free_all)*> headers(nullptr, curl.free_list);
  for (const std::string& header : call.headers)
    headers.reset(curl.append(headers.release(), header.c_str()));
  if (headers) curl.set(handle.get(), CURLOPT_HTTPHEADER, headers.get());
  const CURLcode code = curl.perform(handle.get());
  check(!cancelled(call), ErrorCode::cancelled, "cancelled");
  check(!transfer.refused || code == CURLE_OK, ErrorCode::io,
        "its address is not one to which this server may connect");
  check(!transfer.too_large && code != CURLE_FILESIZE_EXCEEDED, ErrorCode::io,
        "the answer has more than {} bytes", call.most_bytes);
  check(code == CURLE_OK, ErrorCode::io, "{}", curl.text(code));
  HttpAnswer answer;
  long status = 0;
  char *type = nullptr, *redirect = nullptr;
  curl.info(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  curl.info(handle.get(), CURLINFO_CONTENT_TYPE, &type);
  curl.info(handle.get(), CURLINFO_REDIRECT_URL, &redirect);
  answer.status = static_cast<int>(status);
  if (type) answer.type = type;
  if (redirect) answer.redirect = redirect;
  return answer;
}

}  // namespace tachy::web_api
