// Errors of start-up and model loading: one sentence each that names the file or field, what was
// expected and what was found. After "ready" the tick path is noexcept and throws nothing.
#pragma once

#include <stdexcept>
#include <string>

namespace antiphon {

// Thrown for anything wrong with input from outside (checkpoint, configuration, arguments).
class InputError : public std::runtime_error {
 public:
  explicit InputError(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace antiphon
