// Makes safetensors images and temporary checkpoint folders for tests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace antiphon::engine {

inline std::string SourcePath(const std::string& name) {
  return std::string(ANTIPHON_SOURCE_DIR) + "/" + name;
}

// A safetensors image: header length, header, data.
inline std::string Image(const std::string& header, const std::string& data = "") {
  std::string out;
  for (int byte = 0; byte < 8; ++byte) {
    out += static_cast<char>((static_cast<uint64_t>(header.size()) >> (8 * byte)) & 0xFF);
  }
  return out + header + data;
}

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A folder of its own, removed with everything in it.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "antiphon-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }
  std::string str() const { return path_.string(); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  // A file of the source tree, by a link.
  void Link(const std::string& source, const std::string& name) const {
    std::filesystem::create_symlink(SourcePath(source), path_ / name);
  }
  // Replaces the first `from` of a file by `to`.
  void Edit(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = ReadFile(path_ / name);
    const size_t at = text.find(from);
    if (at == std::string::npos) throw std::runtime_error(name + " holds no " + from);
    Write(name, text.replace(at, from.size(), to));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace antiphon::engine
