#include "engine/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "engine/error.h"
#include "tests/engine/model_folder.h"

namespace antiphon::engine {
namespace {

std::string ErrorOf(const std::string& image) {
  try {
    SafeTensors::FromBytes(image, "m");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string Entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"("a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}";
}
std::string One(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{" + Entry(dtype, shape, offsets) + "}";
}

TEST(SafeTensors, EveryBrokenFileHasItsSentence) {
  const std::string data(8, '\0');
  const std::string good = One("F32", "[2]", "[0,8]");
  const struct {
    const char* what;
    std::string image;
    std::string message;
  } cases[] = {
      {"empty", "", "m: truncated: expected at least 8 bytes, found 0"},
      {"Git-LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
       "m: this is a Git-LFS pointer, not the file itself; fetch it with `git lfs pull` or "
       "download it from the hub"},
      {"web page", "<!DOCTYPE html><html></html>",
       "m: not a safetensors file: its first 8 bytes give a header of 5789751444030890300 bytes"},
      {"header cut", Image(good, data).substr(0, 30),
       "m: truncated: the header needs 54 bytes, the file has 22 after its length"},
      {"data cut", Image(good, data).substr(0, 8 + good.size() + 4),
       "m: tensor a: data_offsets [0,8] are out of range: the file has 4 bytes of data; it may be "
       "truncated"},
      {"header not JSON", Image("{a}"),
       "m: not a safetensors file: its header is not a JSON object"},
      {"header a list", Image("[]"), "m: not a safetensors file: its header is not a JSON object"},
      {"deep nesting", Image(std::string(1'000'000, '[')),
       "m: not a safetensors file: its header is not a JSON object"},
      {"deep entry",
       Image(R"({"a":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
       "m: not a safetensors file: its header is not a JSON object"},
      {"unknown dtype", Image(One("F8", "[8]", "[0,8]"), data),
       "m: tensor a: unknown dtype \"F8\", expected one of F32, F16, BF16, F64, I64, I32, I16, I8, "
       "U8, BOOL"},
      {"no dtype", Image(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", data),
       "m: tensor a: expected dtype, shape and two data_offsets"},
      {"one offset", Image(One("F32", "[2]", "[0]"), data),
       "m: tensor a: expected dtype, shape and two data_offsets"},
      {"entry a number", Image(R"({"a":1})"),
       "m: tensor a: expected dtype, shape and two data_offsets"},
      {"negative extent", Image(One("F32", "[-2]", "[0,8]"), data),
       "m: tensor a: shape [-2] is not a possible one"},
      {"fractional extent", Image(One("F32", "[2.0]", "[0,8]"), data),
       "m: tensor a: shape [2.0] is not a possible one"},
      {"overflowing shape", Image(One("F32", "[4294967296,4294967296]", "[0,8]"), data),
       "m: tensor a: shape [4294967296,4294967296] is not a possible one"},
      {"overflow hidden by zero", Image(One("F32", "[0,18446744073709551615]", "[0,0]")),
       "m: tensor a: shape [0,18446744073709551615] is not a possible one"},
      {"offsets reversed", Image(One("F32", "[2]", "[8,0]"), data),
       "m: tensor a: data_offsets [8,0] are out of range"},
      {"offsets negative", Image(One("F32", "[2]", "[-8,0]"), data),
       "m: tensor a: data_offsets [-8,0] are out of range"},
      {"offsets beyond 64 bits", Image(One("F32", "[2]", "[0,99999999999999999999]"), data),
       "m: tensor a: data_offsets [0,1e+20] are out of range"},
      {"size not of shape", Image(One("F32", "[1]", "[0,8]"), data),
       "m: tensor a: data_offsets [0,8] hold 8 bytes, but dtype and shape need 4"},
      {"overlap",
       Image("{" + Entry("F32", "[1]", "[0,4]") +
                 R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
             data),
       "m: tensors a and b have overlapping data_offsets"},
      {"twice",
       Image("{" + Entry("F32", "[1]", "[0,4]") + "," + Entry("F32", "[1]", "[4,8]") + "}", data),
       "m: tensor a is described twice"},
  };
  for (const auto& broken : cases) EXPECT_EQ(ErrorOf(broken.image), broken.message) << broken.what;
  EXPECT_EQ(ErrorOf(Image(good, data)), "no error");
  EXPECT_EQ(ErrorOf(Image("{}")), "no error");
}

TEST(SafeTensors, ReadsEveryDtypeAtAnyAlignment) {
  // One byte first, so that everything behind it is unaligned.
  std::string data = "\x07";
  const auto append = [&](auto value) {
    char bytes[sizeof(value)];
    std::memcpy(bytes, &value, sizeof(value));
    data.append(bytes, sizeof(value));
  };
  append(1.5F);
  append(-2.25);
  append(uint16_t{0xC000});  // F16 -2
  append(uint16_t{0x0001});  // F16 2^-24, subnormal
  append(uint16_t{0x3FC0});  // BF16 1.5
  append(int64_t{-5});
  append(int32_t{70000});
  append(int16_t{-300});
  append(int8_t{-7});
  const std::string image = Image(R"({"__metadata__":{"format":"pt"},)"
                                  R"("u8":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                  R"("f32":{"dtype":"F32","shape":[1],"data_offsets":[1,5]},)"
                                  R"("f64":{"dtype":"F64","shape":[],"data_offsets":[5,13]},)"
                                  R"("f16":{"dtype":"F16","shape":[2],"data_offsets":[13,17]},)"
                                  R"("bf16":{"dtype":"BF16","shape":[1,1],"data_offsets":[17,19]},)"
                                  R"("i64":{"dtype":"I64","shape":[1],"data_offsets":[19,27]},)"
                                  R"("i32":{"dtype":"I32","shape":[1],"data_offsets":[27,31]},)"
                                  R"("i16":{"dtype":"I16","shape":[1],"data_offsets":[31,33]},)"
                                  R"("i8":{"dtype":"I8","shape":[1],"data_offsets":[33,34]}})",
                                  data);
  const SafeTensors file = SafeTensors::FromBytes(image, "m");
  const auto floats = [&](const char* name, int64_t begin) {
    float value = 0;
    ReadFloats(file.Get(name), begin, 1, &value);
    return value;
  };
  const auto ints = [&](const char* name) {
    int32_t value = 0;
    ReadInts(file.Get(name), 0, 1, &value);
    return value;
  };
  EXPECT_EQ(floats("f32", 0), 1.5F);
  EXPECT_EQ(floats("f64", 0), -2.25F);
  EXPECT_EQ(floats("f16", 0), -2.0F);
  EXPECT_EQ(floats("f16", 1), 0x1p-24F);
  EXPECT_EQ(floats("bf16", 0), 1.5F);
  EXPECT_EQ(ints("u8"), 7);
  EXPECT_EQ(ints("i64"), -5);
  EXPECT_EQ(ints("i32"), 70000);
  EXPECT_EQ(ints("i16"), -300);
  EXPECT_EQ(ints("i8"), -7);
  EXPECT_EQ(file.tensors().size(), 9U);
}

// Any damage to a header gives an InputError or tensors that can be read whole.
TEST(SafeTensors, DamagedHeadersNeitherCrashNorReadOutside) {
  const std::string whole = ReadFile(SourcePath("tests/golden/peer-own/test_lm_codes.safetensors"));
  std::mt19937 random(7);
  int refused = 0, opened = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string image = whole;
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int edit = 0; edit < edits; ++edit) {
      // Digits and punctuation keep the JSON whole more often than any byte would.
      constexpr std::string_view kBytes = "0123456789-.,:[]{}\"eE\xff";
      image[random() % std::min<size_t>(image.size(), 300)] = kBytes[random() % kBytes.size()];
    }
    if (random() % 4 == 0) image.resize(random() % image.size());
    try {
      const SafeTensors file = SafeTensors::FromBytes(image, "m");
      ++opened;
      for (const auto& [name, view] : file.tensors()) {
        std::vector<int32_t> values(static_cast<size_t>(view.elements()));
        ReadInts(view, 0, view.elements(), values.data());
      }
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(opened, 0);
}

TEST(SafeTensors, GetNamesFileTensorAndShapes) {
  const std::string image = Image(One("F32", "[2]", "[0,8]"), std::string(8, '\0'));
  const SafeTensors file = SafeTensors::FromBytes(image, "m");
  const auto error = [](const auto& get) -> std::string {
    try {
      get();
    } catch (const InputError& caught) {
      return caught.what();
    }
    return "no error";
  };
  EXPECT_EQ(error([&] { file.Get("b"); }), "m: missing tensor b");
  EXPECT_EQ(error([&] { file.Get("a", {1, 2}); }), "m: tensor a: expected shape [1, 2], found [2]");
  EXPECT_EQ(error([&] { file.Get("a", {2}); }), "no error");
}

TEST(SafeTensors, ShardsAreOneFile) {
  const TempFolder folder;
  const std::string data(8, '\1');
  folder.Write("1.safetensors", Image(One("F32", "[2]", "[0,8]"), data));
  folder.Write("2.safetensors",
               Image(R"({"b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", data));
  const auto open = [&](const std::string& index) -> std::string {
    folder.Write("index.json", index);
    try {
      const SafeTensors file = SafeTensors::OpenIndex(folder.str() + "/index.json");
      return std::to_string(file.tensors().size()) + " tensors";
    } catch (const InputError& error) {
      std::string text = error.what();
      for (size_t at; (at = text.find(folder.str() + "/")) != std::string::npos;) {
        text.erase(at, folder.str().size() + 1);
      }
      return text;
    }
  };
  EXPECT_EQ(open(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})"), "2 tensors");
  EXPECT_EQ(open(R"({"weight_map":{"a":"3.safetensors"}})"),
            "3.safetensors: cannot be opened: No such file or directory");
  EXPECT_EQ(open(R"({"weight_map":{"b":"1.safetensors"}})"),
            "1.safetensors: missing tensor b, which the index names");
  EXPECT_EQ(open(R"({"weight_map":{"a":"../1.safetensors"}})"),
            "index.json: weight_map.a: expected a file name, found \"../1.safetensors\"");
  EXPECT_EQ(open(R"({"weight_map":{"a":1}})"),
            "index.json: weight_map.a: expected a file name, found 1");
  EXPECT_EQ(open("no"), "index.json: expected a JSON object with a weight_map");
  EXPECT_EQ(
      open(R"({"weight_map":{"a":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}}"),
      "index.json: expected a JSON object with a weight_map");
}

}  // namespace
}  // namespace antiphon::engine
