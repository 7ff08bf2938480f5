// model.pretrained with files that are broken, or that are another model's: exit 3, naming the file, the byte
// or the tensor.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "tests/launch/process.h"

namespace recollect::test::hostile_weights_test {
namespace {

using nlohmann::json;

const std::string kGolden = std::string(RECOLLECT_SOURCE_DIR) + "/tests/golden/plain";

struct Weights {
  json header;
  std::string data;
};

std::string little_endian(uint64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  return bytes;
}

Weights golden_weights() {
  const std::string bytes = test::TemporaryFolder::read(kGolden + "/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  return {json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
}

std::string file_of(const Weights& weights) {
  std::string header = weights.header.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return little_endian(header.size()) + header + weights.data;
}

// A file made from the golden one with its header changed.
std::string changed(const std::function<void(json&)>& change) {
  Weights weights = golden_weights();
  change(weights.header);
  return file_of(weights);
}

// The golden file with a head of its own beside the table that the model ties it to.
std::string with_head(char changed) {
  Weights weights = golden_weights();
  const json table = weights.header["transformer.wte.weight"];
  const std::size_t from = table["data_offsets"][0], to = table["data_offsets"][1], end = weights.data.size();
  weights.data += weights.data.substr(from, to - from);
  weights.data.back() = static_cast<char>(weights.data.back() ^ changed);
  weights.header["lm_head.weight"] = table;
  weights.header["lm_head.weight"]["data_offsets"] = {end, weights.data.size()};
  return file_of(weights);
}

struct HostileWeightsCase {
  const char* name;
  std::function<std::string()> file;
  std::vector<const char*> says;
};

void PrintTo(const HostileWeightsCase& c, std::ostream* out) { *out << c.name; }

class HostileWeights : public ::testing::TestWithParam<HostileWeightsCase> {};

Finished train_on(const std::string& file) {
  const Workplace place;
  place.folder().write("weights/model.safetensors", file);
  std::filesystem::copy(kGolden + "/config.json", place.file("weights"));
  place.folder().write("c.yaml",
                       "model: {pretrained: weights}\ndevice: {backend: reference}\n"
                       "training: {precision: fp64, max_steps: 1}\ndata: {format: random}\n"
                       "logging: {progress: off}\noutput_dir: out\n");
  return place.train({});
}

TEST_P(HostileWeights, AreRejected) {
  const Finished finished = train_on(GetParam().file());
  EXPECT_EQ(finished.status, 3) << finished.err;
  for (const char* text : GetParam().says)
    EXPECT_NE(finished.err.find(text), std::string::npos) << text << "\n" << finished.err;
}

TEST(GoodWeights, AreTrained) {  // or the table would prove nothing
  const std::string head_alone = changed([](json& h) {
    h["lm_head.weight"] = h["transformer.wte.weight"];
    h.erase("transformer.wte.weight");
  });
  for (const std::string& file : {changed([](json&) {}), with_head('\0'), head_alone}) {
    const Finished finished = train_on(file);
    EXPECT_EQ(finished.status, 0) << finished.err;
  }
}

const char* const kBias = "transformer.h.0.ln_1.bias";
const char* const kWeight = "transformer.h.0.attn.c_attn.weight";

INSTANTIATE_TEST_SUITE_P(
    Table, HostileWeights,
    ::testing::Values(
        HostileWeightsCase{"Empty", [] { return std::string(); }, {"model.safetensors"}},
        HostileWeightsCase{"HugeHeader",
                           [] { return little_endian(uint64_t{1} << 62) + "{}"; },
                           {"model.safetensors", "header"}},
        HostileWeightsCase{"OverflowingHeader",
                           [] { return little_endian(~uint64_t{0}) + "{}"; },
                           {"model.safetensors", "header"}},
        HostileWeightsCase{"HeaderIsNoJson",
                           [] { return little_endian(8) + "{\"a\": ?}" + std::string(64, '\0'); },
                           {"model.safetensors", "the header is not valid JSON"}},
        HostileWeightsCase{"Truncated",
                           [] { return changed([](json&) {}).substr(0, 20000); },
                           {"model.safetensors", "do not lie in the file's 17408 bytes"}},
        HostileWeightsCase{"Overlapping",
                           [] {
                             return changed([](json& h) {
                               h[kBias]["data_offsets"] = h["transformer.h.0.ln_1.weight"]["data_offsets"];
                             });
                           },
                           {"model.safetensors", "ln_1"}},
        HostileWeightsCase{"OffsetsOverflow",
                           [] {
                             return changed([](json& h) {
                               h[kBias]["data_offsets"] = {~uint64_t{0} - 191, ~uint64_t{0}};
                             });
                           },
                           {"model.safetensors", kBias}},
        HostileWeightsCase{"DuplicateKey",
                           [] {
                             Weights weights = golden_weights();
                             std::string text = file_of(weights);
                             const std::size_t at = text.find("transformer.h.0.ln_1.weight");
                             return text.replace(at, 27, "transformer.h.0.ln_2.weight");
                           },
                           {"model.safetensors", "transformer.h.0.ln_2.weight", "twice"}},
        HostileWeightsCase{"UnknownDtype",
                           [] { return changed([](json& h) { h[kBias]["dtype"] = "F65"; }); },
                           {kBias, "F65"}},
        HostileWeightsCase{"IntegerWeights",
                           [] { return changed([](json& h) { h[kBias]["dtype"] = "I64"; }); },
                           {"h.0.ln_1.bias", "I64"}},
        HostileWeightsCase{"HeadIsNotTheTable",
                           [] { return with_head('\1'); },
                           {"not the same: lm_head.weight differs from "
                            "transformer.wte.weight, and both are one parameter"}},
        HostileWeightsCase{"OneParameterTwice",
                           [] {
                             return changed([](json& h) {
                               h["h.0.ln_1.bias"] = h["transformer.h.0.ln_2.bias"];
                               h.erase("transformer.h.0.ln_2.bias");
                             });
                           },
                           {"missing: h.0.ln_2.bias", "not the same: h.0.ln_1.bias differs from", kBias}},
        HostileWeightsCase{"Misshapen",
                           [] { return changed([](json& h) {
                                  h[kWeight]["shape"] = {72, 24};
                                }); },
                           {"h.0.attn.c_attn.weight", "72, 24", "24, 72"}},
        HostileWeightsCase{"MissingAndUnknown",
                           [] {
                             return changed([](json& h) {
                               h["transformer.h.0.ln_1.bais"] = h[kBias];
                               h.erase(kBias);
                             });
                           },
                           {"h.0.ln_1.bias", "h.0.ln_1.bais"}}),
    [](const ::testing::TestParamInfo<HostileWeightsCase>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace recollect::test::hostile_weights_test
