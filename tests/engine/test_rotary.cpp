// Rotary positions: the table against values that tests/golden/make_rotary.py printed, and what turning means.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/engine/cpu_kernels.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/op_harness.h"
#include "tests/gpu/emulation/backend.h"

namespace recollect::test {
namespace {

struct GoldenRow {
  const char* scaling;
  int64_t position;
  std::array<double, 12> values;
};
constexpr GoldenRow kGolden[] = {
    {"default",
     1,
     {0.5403023058681398, 0.9768816851701912, 0.9989229760406304, 0.9999500004166653, 0.9999976792064809,
      0.9999998922782675, 0.8414709848078965, 0.21378066605529894, 0.04639922346473127, 0.009999833334166664,
      0.002154433023365604, 0.0004641588666946114}},
    {"default",
     37,
     {0.7654140519453434, -0.11715703829822492, -0.14606708589974432, 0.9323273456060345, 0.9968245144860287,
      0.9998525325700504, -0.6435381333569995, 0.9931134015696235, 0.9892746870393262, 0.361615431964962,
      0.0796296886826334, 0.01717303448015028}},
    {"default",
     1023,
     {0.4000681972008891, 0.8836550908684021, -0.9360503389466751, -0.6929511652560963, -0.591719654831472,
      0.8893683817305343, -0.9164853722719367, 0.46813852691522423, -0.35186611510319477, -0.7209845231142055,
      0.8061438147663998, 0.45719129648103607}},
    {"linear",
     1,
     {0.9689124217106447, 0.9985498541122771, 0.9999326746714, 0.9999968750016276, 0.9999998549503525,
      0.9999999932673916, 0.24740395925452294, 0.05383482936120419, 0.011603711669118558,
      0.002499997395834147, 0.0005386086464663046, 0.00011603972057990281}},
    {"linear",
     37,
     {-0.9847651734673236, -0.4096366831837344, 0.9092377861856399, 0.9957249245223883, 0.9998014335994959,
      0.9999907830732504, 0.17388948538043356, 0.9122487532412575, 0.4162771290525538, 0.09236814756659498,
      0.019927201820446543, 0.004293456480218562}},
    {"linear",
     1023,
     {-0.2857617853236206, 0.12149485909141798, 0.7677288172083699, -0.834212778757384, 0.852003151002921,
      0.9929624002187738, -0.9583006845706921, -0.9925920608257738, -0.6407748927882844, 0.5514426894590987,
      0.5235366564827086, 0.11843002892751338}},
    {"llama3",
     1,
     {0.5403023058681398, 0.9768816851701912, 0.999840400262423, 0.9999992187501017, 0.9999999637375875,
      0.9999999983168479, 0.8414709848078965, 0.21378066605529894, 0.017865441586415415, 0.001249999674479192,
      0.00026930433299877715, 5.801986038760765e-05}},
    {"llama3",
     37,
     {0.7654140519453434, -0.11715703829822492, 0.7893440283395114, 0.9989306593859226, 0.9999503571676686,
      0.9999976957656579, -0.6435381333569995, 0.9931134015696235, 0.6139511421316459, 0.04623351315664737,
      0.0099640955561483, 0.002146733186685613}},
    {"llama3",
     1023,
     {0.4000681972008891, 0.8836550908684021, 0.8406918121308634, 0.2879125051492346, 0.9622897565190334,
      0.9982390495815052, -0.9164853722719367, 0.46813852691522423, -0.5415138751833835, 0.9576567179207234,
      0.27202651433001795, 0.05931947311476302}},
    {"dynamic",
     1,
     {0.5403023058681398, 0.993602694789066, 0.9999179751597026, 0.9999989493890622, 0.9999999865434832,
      0.9999999998276452, 0.8414709848078965, 0.11293221377404224, 0.012807925379250743,
      0.0014495588197143941, 0.0001640519225995569, 1.856635533338445e-05}},
    {"dynamic",
     37,
     {0.7654140519453434, -0.5011817180749749, 0.8897924279568773, 0.9985620581193205, 0.9999815780850965,
      0.9999997640463221, -0.6435381333569995, -0.8653420626939479, 0.45636546226747404, 0.05360798526811848,
      0.006069883890174113, 0.0006869550933448258}},
    {"dynamic",
     1023,
     {0.4000681972008891, -0.8950371396812851, 0.8595053004265828, 0.08778399778508564, 0.9859503873745534,
      0.9998196311518764, -0.9164853722719367, 0.4459916126914763, 0.5111268321450261, 0.9961395332647269,
      0.16703841964041716, 0.018992239555296758}},
    {"yarn",
     1,
     {0.6753778823351746, 1.2354728961961838, 1.2497662361612139, 1.2499990234376273, 1.2499999546719842,
      1.2499999978960599, 1.0518387310098707, 0.1900176906622476, 0.024173434829022122, 0.00156249959309899,
      0.00033663041624847144, 7.252482548450956e-05}},
    {"yarn",
     37,
     {0.9567675649316792, 1.0050248539880253, 0.9433924818906018, 1.2486633242324032, 1.2499379464595857,
      1.2499971197070723, -0.8044226666962493, -0.7432530140311226, 0.8200674515625471, 0.05779189144580922,
      0.012455119445185375, 0.0026834164833570164}},
    {"yarn",
     1023,
     {0.5000852465011114, 0.7128917889773609, 0.7420552893199859, 0.35989063143654326, 1.2028621956487917,
      1.2477988119768815, -1.145606715339921, -1.0267839583907892, 1.0059095126263753, 1.1970708974009043,
      0.34003314291252246, 0.07414934139345378}},
    {"longrope",
     1,
     {0.6753778823351746, 1.2371288474143902, 1.24966338468875, 1.2499960937520345, 1.2499999546719842,
      1.249999999474015, 1.0518387310098707, 0.17891957661234992, 0.02900732611354364, 0.003124996744792684,
      0.00033663041624847144, 3.626241275751357e-05}},
    {"longrope",
     37,
     {0.9567675649316792, 0.7077447357850867, 0.8167833795694087, 1.2446561556529854, 1.2499379464595857,
      1.2499992799265607, -0.8044226666962493, -1.0303384827174504, 0.9462372381486449, 0.11546018445824373,
      0.012455119445185375, 0.001341709014581728}},
    {"longrope",
     1023,
     {0.5000852465011114, -0.9377689813277856, 0.2235188419304066, -1.0427659734467298, 1.2028621956487917,
      1.249449581810147, -1.145606715339921, 0.826492188504796, -1.229853376342924, 0.6893033618238734,
      0.34003314291252246, 0.037091003146976484}},
};

OpCase table_case(const std::string& scaling, const std::string& dtype) {
  const double factor = scaling == "linear" ? 4.0 : 8.0,
               times = scaling == "yarn" || scaling == "longrope" ? 1.25 : 1;
  return {.name = "table",
          .kind = "rotary_table",
          .attributes = {{"sequence_length", int64_t{1024}},
                         {"length", int64_t{1024}},
                         {"head_size", int64_t{12}},
                         {"theta", 10000.0},
                         {"dtype", dtype},
                         {"scaling", scaling},
                         {"factor", factor},
                         {"attention_factor", times},
                         {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0},
                         {"beta_fast", 32.0},
                         {"beta_slow", 1.0},
                         {"truncate", int64_t{1}},
                         {"short_factor", std::string("1, 1, 1, 1, 1, 1")},
                         {"long_factor", std::string("1, 1.5, 2, 4, 8.0, 16")},
                         {"original_positions", int64_t{256}}}};
}

KernelTable kernels_of_reference() {
  KernelTable table;
  reference::register_kernels(table);
  return table;
}

TEST(RotaryTable, IsTransformersInDouble) {
  for (const GoldenRow& row : kGolden) {
    const Numbers table = run_case(table_case(row.scaling, "f64"), {}, kernels_of_reference(), kDouble)[0];
    for (std::size_t i = 0; i < row.values.size(); ++i)
      EXPECT_NEAR(table[static_cast<std::size_t>(row.position) * 12 + i], row.values[i], 3e-13)
          << row.scaling << ", position " << row.position << ", element " << i;
    const double times =
        row.scaling == std::string("yarn") || row.scaling == std::string("longrope") ? 1.25 : 1;
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(table[i], i < 6 ? times : 0) << "position 0";
  }
}

// Angles are not rounded to float, whatever the table's dtype and the backend.
TEST(RotaryTable, IsRoundedOnceInEveryBackend) {
  KernelTable cpu, cuda;
  register_cpu_kernels(cpu);
  emulation::register_kernels(cuda);
  const KernelTable reference = kernels_of_reference();
  for (const char* scaling : {"default", "linear", "dynamic", "yarn", "longrope", "llama3"}) {
    Numbers want = run_case(table_case(scaling, "f64"), {}, reference, kDouble)[0];
    for (double& x : want) x = static_cast<float>(x);
    for (const KernelTable* kernels :
         {&reference, static_cast<const KernelTable*>(&cpu), static_cast<const KernelTable*>(&cuda)})
      EXPECT_EQ(run_case(table_case(scaling, "f32"), {}, *kernels, kFloat)[0], want) << scaling;
  }
}

// The length is the one given when the table was made, or a run's input; up to the earlier length nothing is scaled.
TEST(RotaryTable, GoesByTheLengthOfTheSequence) {
  KernelTable cpu, cuda;
  register_cpu_kernels(cpu);
  emulation::register_kernels(cuda);
  const KernelTable reference = kernels_of_reference();
  const ValueSpec length{.name = "length", .shape = {1}, .storage = Storage::kI32};
  for (const char* scaling : {"dynamic", "longrope"})
    for (const int64_t tokens : {256, 257, 1024}) {
      OpCase given = table_case(scaling, "f32"), plain = table_case("default", "f32"), said = given;
      for (OpCase* c : {&given, &plain, &said}) c->attributes.set("attention_factor", 1.0);
      given.attributes.set("length", tokens);
      said.attributes.set("length", int64_t{7});
      said.inputs = {absent(), length};
      const Numbers want = run_case(given, {}, reference, kFloat)[0];
      EXPECT_EQ(want == run_case(plain, {}, reference, kFloat)[0], tokens == 256) << scaling << tokens;
      for (const KernelTable* kernels :
           {&reference, static_cast<const KernelTable*>(&cpu), static_cast<const KernelTable*>(&cuda)})
        EXPECT_EQ(run_case(said, {.inputs = {{}, {static_cast<double>(tokens)}}, .accumulators = {}},
                           *kernels, kFloat)[0],
                  want)
            << scaling << tokens;
    }
}

TEST(RotaryTable, RefusesWhatMakesNoSense) {
  OpRegistry registry;
  register_engine_ops(registry);
  const auto refused = [&](const char* name, Attribute value, const char* said) {
    OpCase c = table_case("llama3", "f32");
    c.attributes.set(name, std::move(value));
    expect_error(ExitCode::kInternal, {said}, [&] { make_graph(c, registry, kFloat); });
  };
  refused("scaling", std::string("su"), "su");
  refused("head_size", int64_t{7}, "pairs");
  refused("factor", 0.0, "positive factor");
  refused("high_freq_factor", 1.0, "high_freq_factor");
  refused("dtype", std::string("bf16"), "f64 or f32");
  KernelTable cpu;
  register_cpu_kernels(cpu);
  expect_error(ExitCode::kConfiguration, {"rotary_table", "f64"},
               [&] { run_case(table_case("default", "f64"), {}, cpu, kFloat); });
}

OpCase turn_case(int64_t inverse) {
  return {.name = "turn",
          .kind = "rotary",
          .inputs = {activation("x", {2048, 25}), statistic("table", {1024, 12})},
          .attributes = {{"sequence_length", int64_t{1024}},
                         {"head_size", int64_t{12}},
                         {"rotated_heads", int64_t{2}},
                         {"inverse", inverse}}};
}

// Transformers' q * cos + rotate_half(q) * sin, whose cosines and sines stand twice in a row.
TEST(Rotary, IsTransformersRotateHalf) {
  const KernelTable kernels = kernels_of_reference();
  const Numbers table = run_case(table_case("default", "f64"), {}, kernels, kDouble)[0];
  const Numbers x = random_numbers(activation("x", {2048, 25}), 3);
  const Numbers y = run_case(turn_case(0), {.inputs = {x, table}, .accumulators = {}}, kernels, kDouble)[0];
  for (std::size_t row = 0; row < 2048; ++row)
    for (std::size_t c = 0; c < 25; ++c) {
      const std::size_t at = row * 25 + c, i = c % 12, position = row % 1024 * 12;
      const double half = c == 24 ? 0 : i < 6 ? -x[at + 6] : x[at - 6];
      const double want =
          c == 24 ? x[at] : x[at] * table[position + i % 6] + half * table[position + 6 + i % 6];
      ASSERT_NEAR(y[at], want, 1e-15) << row << ", " << c;
    }
}

TEST(Rotary, TheInverseTurnsBackAndLengthsStay) {
  const KernelTable kernels = kernels_of_reference();
  const Numbers table = run_case(table_case("llama3", "f64"), {}, kernels, kDouble)[0];
  const Numbers x = random_numbers(activation("x", {2048, 25}), 4);
  const Numbers y = run_case(turn_case(0), {.inputs = {x, table}, .accumulators = {}}, kernels, kDouble)[0];
  EXPECT_NE(x, y);
  EXPECT_NEAR(root_mean_square(x), root_mean_square(y), 1e-13);
  expect_close(run_case(turn_case(1), {.inputs = {y, table}, .accumulators = {}}, kernels, kDouble)[0], x,
               1e-14, "back");
}

}  // namespace
}  // namespace recollect::test
