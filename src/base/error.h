// The one error type of the engine.
//
// Library code throws Error; it never exits, aborts or prints. The outermost layers translate the error once:
// the command line into an exit code, a server into an HTTP status, Python into an exception. Messages read
// "op: expected X, got Y"; they name the file, and the remedy if there is one.
#pragma once

#ifndef __CUDACC__
#include <fmt/format.h>
#endif

#include <exception>
#include <source_location>
#include <string>
#include <string_view>

namespace tachy {

enum class ErrorCode {
  invalid_argument,  // the caller's value is wrong; the text says what would work
  unsupported,       // valid, but not implemented for this model, machine or build
  not_found,         // a file, tensor or component is missing
  out_of_memory,
  device,
  io,         // reading or writing failed
  corrupt,    // a file's content is malformed or lies about itself
  numerical,  // NaN or Inf in a stage
  cancelled,
  internal,
};

std::string_view to_string(ErrorCode code);

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, std::source_location where = std::source_location::current())
      : code_(code), message_(std::move(message)), where_(where) {}
  const char* what() const noexcept override { return message_.c_str(); }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::source_location& where() const { return where_; }

 private:
  ErrorCode code_;
  std::string message_;
  std::source_location where_;
};

// Replaces each "{}" in the text by the next field, and throws. Files that nvcc compiles use this.
[[noreturn]] void fail_filled(ErrorCode code, const char* text, const std::string* fields, size_t count);

#ifndef __CUDACC__

// Captures the call site beside a format string, so that fail() and check() need no macro.
template <class... Args>
struct LocatedFormat {
  fmt::format_string<Args...> text;
  std::source_location where;
  template <class S>
  consteval LocatedFormat(const S& s, std::source_location w = std::source_location::current())
      : text(s), where(w) {}
};

template <class... Args>
[[noreturn]] void fail(ErrorCode code, LocatedFormat<std::type_identity_t<Args>...> f, Args&&... args) {
  throw Error(code, fmt::format(f.text, std::forward<Args>(args)...), f.where);
}

// Throws Error{code} unless `ok`. The arguments are always evaluated, so they should be cheap.
template <class... Args>
void check(bool ok, ErrorCode code, LocatedFormat<std::type_identity_t<Args>...> f, Args&&... args) {
  if (!ok) [[unlikely]]
    throw Error(code, fmt::format(f.text, std::forward<Args>(args)...), f.where);
}

// Checks an argument, which is the usual case.
template <class... Args>
void require(bool ok, LocatedFormat<std::type_identity_t<Args>...> f, Args&&... args) {
  if (!ok) [[unlikely]]
    throw Error(ErrorCode::invalid_argument, fmt::format(f.text, std::forward<Args>(args)...), f.where);
}

#else  // nvcc takes neither fmt 9 nor its compile-time checks, so only plain "{}" is filled in, at run time

struct ErrorField {
  std::string text;
  ErrorField(const char* s) : text(s) {}
  ErrorField(const std::string& s) : text(s) {}
  ErrorField(std::string_view s) : text(s) {}
  template <class Number>
  ErrorField(Number n) : text(std::to_string(n)) {}
};

template <class... Args>
[[noreturn]] void fail(ErrorCode code, const char* text, const Args&... args) {
  const std::string fields[] = {ErrorField(args).text..., ""};
  fail_filled(code, text, fields, sizeof...(args));
}
template <class... Args>
void check(bool ok, ErrorCode code, const char* text, const Args&... args) {
  if (!ok) fail(code, text, args...);
}
template <class... Args>
void require(bool ok, const char* text, const Args&... args) {
  if (!ok) fail(ErrorCode::invalid_argument, text, args...);
}

#endif

// Runs `body`. If it throws an Error that names no field or option, the text is extended to say whose value
// was wrong. `whose` begins the text: "`model`: no/such/folder: no such folder".
template <class F>
decltype(auto) naming(std::string_view whose, F&& body) {
  try {
    return body();
  } catch (const Error& e) {
    if (e.code() == ErrorCode::cancelled || e.message().starts_with("--") || e.message().starts_with("`") ||
        e.message().find(whose) != std::string::npos)
      throw;
    throw Error(e.code(), std::string(whose) + ": " + e.message(), e.where());
  }
}

}  // namespace tachy
