// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace duoka {

/// Base of every error duoka reports. The message says what was found, what was wanted and what to do;
/// context(s) added on the way up are part of what() as "while <doing>: <message>".
/// Errors are told apart by who can act on them; the command's exit code follows from the kind.
class Error : public std::runtime_error {
 public:
  /// `kind`: the class's name, as printed. `exit_code`: what the process exits with.
  Error(const char* kind, int exit_code, const std::string& message)
      : std::runtime_error(message), kind_(kind), exit_code_(exit_code) {}

  const char* kind() const noexcept { return kind_; }
  int exit_code() const noexcept { return exit_code_; }

  /// Throws a copy of this error, of the same class, whose message starts with `message_prefix`.
  [[noreturn]] virtual void rethrow_with(const std::string& message_prefix) const = 0;

 private:
  const char* kind_;
  int exit_code_;
};

namespace detail {
template <class Derived, int code>
class ErrorOf : public Error {
 public:
  explicit ErrorOf(const std::string& message) : Error(Derived::name, code, message) {}
  [[noreturn]] void rethrow_with(const std::string& message_prefix) const final {
    throw Derived(message_prefix + what());
  }
};
}  // namespace detail

/// The user's options or environment are wrong; exit code 2.
class ConfigError final : public detail::ErrorOf<ConfigError, 2> {
 public:
  static constexpr const char* name = "ConfigError";
  using ErrorOf::ErrorOf;
};
/// A row or a data file is wrong ("file:line: why"); exit code 3.
class DataError final : public detail::ErrorOf<DataError, 3> {
 public:
  static constexpr const char* name = "DataError";
  using ErrorOf::ErrorOf;
};
/// A model, tokenizer, adapter or checkpoint file is wrong; exit code 4.
class FormatError final : public detail::ErrorOf<FormatError, 4> {
 public:
  static constexpr const char* name = "FormatError";
  using ErrorOf::ErrorOf;
};
/// A peer or the network failed; exit code 5.
class CommError final : public detail::ErrorOf<CommError, 5> {
 public:
  static constexpr const char* name = "CommError";
  using ErrorOf::ErrorOf;
};
/// A caller broke a contract of the library; exit code 6.
class StateError final : public detail::ErrorOf<StateError, 6> {
 public:
  static constexpr const char* name = "StateError";
  using ErrorOf::ErrorOf;
};
/// The system refused: disk full, no permission, file gone; exit code 7.
class SystemError final : public detail::ErrorOf<SystemError, 7> {
 public:
  static constexpr const char* name = "SystemError";
  using ErrorOf::ErrorOf;
};

/// Runs `body`; an Error that leaves it gets "while <doing>: " in front of its message, anything else
/// derived from std::exception becomes a StateError with the same prefix.
template <class Body>
decltype(auto) within(std::string_view doing, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    error.rethrow_with("while " + std::string(doing) + ": ");
    throw;  // not reached; GCC 12 does not trust [[noreturn]] on a virtual function
  } catch (const std::exception& error) {
    throw StateError("while " + std::string(doing) + ": " + error.what());
  }
}

}  // namespace duoka
