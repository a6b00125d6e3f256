// Bytes, multiply-adds and memory of plans against values from the models' dimensions, and against
// what a loaded model takes.
#include "engine/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/capacity.h"
#include "engine/error.h"
#include "engine/make_executor.h"
#include "engine/model.h"
#include "engine/model_shapes.h"

namespace antiphon::engine {
namespace {

using kernels::KvFormat;
using kernels::OpKind;
using kernels::Part;
using kernels::WeightFormat;

struct Planned {
  Checkpoint checkpoint;
  ModelPlans plans;
  Planned(const std::string& shape, KvFormat kv, int slots = 1)
      : checkpoint(MakeSyntheticCheckpoint(FindModelShape(shape))),
        plans(PlanModel(checkpoint, Options(kv, slots))) {}
  static ModelOptions Options(KvFormat kv, int slots) {
    ModelOptions options;
    options.kv = kv;
    options.slots = slots;
    return options;
  }
  Capacity On(WeightFormat format) const {
    return {plans, format, FindMachine("bandwidth=100,memory=16,ops=10,latency=1")};
  }
  // Multiply-adds of the linear ops of a part.
  double LinearMacs(Part part) const {
    const Capacity capacity = On(WeightFormat::kBf16);
    double macs = 0;
    for (const kernels::Op& op : plans.Tick(1)->ops) {
      if (op.part == part && op.kind == OpKind::kLinear) macs += capacity.CostOfOp(op, 1, 0).macs;
    }
    return macs;
  }
};

Cost PartOf(const TickCost& tick, Part part) { return tick.parts[static_cast<size_t>(part)]; }

TEST(Roofline, PicoByHand) {
  const Planned pico("pico", KvFormat::kF32);
  // 6 layers of width 256, feed-forward 704 (4.125 * 256 * 2 / 3), and a text head of 480.
  constexpr double kTemporal = 6 * (4 * 256 * 256 + 3 * 256 * 704) + 480 * 256;
  // 8 steps: 2 layers of width 128, feed-forward 352, an input from 256 and a head of 512.
  constexpr double kDepth = 8 * (2 * (4 * 128 * 128 + 3 * 128 * 352) + 256 * 128 + 512 * 128);
  EXPECT_EQ(pico.LinearMacs(Part::kTemporal), kTemporal);
  EXPECT_EQ(pico.LinearMacs(Part::kDepth), kDepth);
  // Keys and values of 6 layers, 100 positions, in float32; the query meets each of them once.
  const Cost at99 = PartOf(pico.On(WeightFormat::kF32).TickCosts(1, 99), Part::kTemporal);
  EXPECT_EQ(at99.kv_bytes, 6 * 100 * 2 * 256 * 4);
  EXPECT_EQ(at99.macs, kTemporal + 6 * 100 * 2 * 256);
  // Rows share the weights (but for embedded rows), not keys and values.
  const Cost two = PartOf(pico.On(WeightFormat::kF32).TickCosts(2, 99), Part::kTemporal);
  EXPECT_EQ(two.kv_bytes, 2 * at99.kv_bytes);
  EXPECT_EQ(two.macs, 2 * at99.macs);
  EXPECT_NEAR(two.weight_bytes, at99.weight_bytes, 17 * 256 * 4);
}

TEST(Roofline, FullSizeModels) {
  const Planned moshi("moshi-7b", KvFormat::kBf16);
  constexpr double kTextHead = 32000.0 * 4096;
  EXPECT_NEAR(moshi.LinearMacs(Part::kTemporal) - kTextHead, 6.577e9, 1e6);
  EXPECT_NEAR(moshi.LinearMacs(Part::kDepth), 0.667e9, 1e6);
  EXPECT_NEAR(PartOf(moshi.On(WeightFormat::kBf16).TickCosts(1, 2999), Part::kTemporal).kv_bytes,
              1.573e9, 1e6);
  const Planned packed("moshi-7b", KvFormat::kInt4);
  EXPECT_NEAR(PartOf(packed.On(WeightFormat::kInt4).TickCosts(1, 2999), Part::kTemporal).kv_bytes,
              0.44e9, 0.02e9);
  // PersonaPlex's last eight depth steps are not planned.
  const Planned persona("personaplex-7b", KvFormat::kBf16);
  EXPECT_EQ(persona.LinearMacs(Part::kDepth), moshi.LinearMacs(Part::kDepth));
}

TEST(Roofline, MidReadsItsMatricesAtFourAndAHalfBits) {
  const Planned mid("mid", KvFormat::kInt8);
  const TickCost tick = mid.On(WeightFormat::kInt4).TickCosts(1, 0);
  const double parameters = mid.LinearMacs(Part::kTemporal) + mid.LinearMacs(Part::kDepth);
  const double bytes =
      PartOf(tick, Part::kTemporal).weight_bytes + PartOf(tick, Part::kDepth).weight_bytes;
  // 4 bits and a bf16 scale for 32; norms and embedded rows are the rest.
  EXPECT_NEAR(bytes, parameters * 4.5 / 8, 0.5e6);
  EXPECT_NEAR(bytes, 228e6, 1e6);
}

TEST(Capacity, MemoryIsWhatAModelTakes) {
  const auto checkpoint =
      std::make_shared<const Checkpoint>(Checkpoint::Open(FindBuiltInModel("embedded")));
  for (const char* weights : {"fp32", "bf16", "int8", "int4"}) {
    for (const KvFormat kv : {KvFormat::kF32, KvFormat::kBf16, KvFormat::kInt8, KvFormat::kInt4}) {
      const ModelOptions options = Planned::Options(kv, 3);
      Model model(checkpoint, options, MakeExecutor("cpu", weights, 1));
      const MemoryTable table =
          MemoryOf(PlanModel(*checkpoint, options), ParseWeightFormat(weights));
      EXPECT_EQ(table.weights, model.executor().weight_bytes()) << weights;
      EXPECT_EQ(table.kv * 3, model.executor().kv_bytes()) << weights;
    }
  }
}

TEST(Capacity, TimeIsTheLargerOfMovingAndComputingAndTheChain) {
  const Planned pico("pico", KvFormat::kF32);
  const Capacity capacity = pico.On(WeightFormat::kF32);
  Cost cost;
  cost.weight_bytes = 100e6;  // 1 ms at 100 GB/s
  cost.macs = 10e9;           // 2 ms at 5 T multiply-adds/s
  cost.ops = 3;
  EXPECT_NEAR(capacity.TimeOf(cost).total_s, 2.003e-3, 1e-9);
  EXPECT_EQ(capacity.TimeOf(cost).bound(), Bound::kCompute);
  cost.macs = 1e9;
  EXPECT_EQ(capacity.TimeOf(cost).bound(), Bound::kBandwidth);
  cost.ops = 2000;
  EXPECT_EQ(capacity.TimeOf(cost).bound(), Bound::kChain);
}

TEST(Capacity, SessionsFitAndOneMoreDoesNot) {
  const Planned mid("mid", KvFormat::kInt8);
  const Capacity capacity = mid.On(WeightFormat::kInt4);
  const int fits = capacity.SessionsInTime(2999, 0.2);
  ASSERT_GT(fits, 0);
  ASSERT_LT(fits, kMaxSessions);
  EXPECT_LE(capacity.TickSeconds(fits, 2999), 0.064);
  EXPECT_GT(capacity.TickSeconds(fits + 1, 2999), 0.064);
  const MemoryTable table = capacity.memory();
  const int resident = capacity.SessionsInMemory();
  EXPECT_LE(double(table.weights) + double(table.per_session()) * resident, 16e9);
}

TEST(Machine, WrongTextNamesTheField) {
  const auto message = [](const std::string& text) {
    try {
      FindMachine(text);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message("pdp11"), testing::HasSubstr("machine: expected auto, h200, "));
  EXPECT_EQ(message("bandwidth=fast,memory=8"),
            "machine: bandwidth: expected a number above 0, found \"fast\"");
  EXPECT_EQ(message("bandwidth=100"), "machine: memory is missing (GB)");
  EXPECT_EQ(message("bandwidth=1,speed=2"),
            "machine: expected bandwidth, memory, ops or latency, found \"speed\"");
  for (const std::string& name : MachineNames()) {
    if (name == "auto") continue;
    EXPECT_GT(FindMachine(name).macs, 0) << name;
  }
}

}  // namespace
}  // namespace antiphon::engine
