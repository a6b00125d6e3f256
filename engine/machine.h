// Machines that a plan is made for: what their memory holds and gives, and what they compute.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace antiphon::engine {

struct Machine {
  std::string name;
  double memory_bytes = 0;    // decimal units throughout, as vendors count
  double reserved_bytes = 0;  // of it, what system and driver keep
  double bandwidth = 0;       // bytes per second that reading sustains
  double macs = 0;            // multiply-adds per second that matrices sustain; 0: not a bound
  double op_s = 0;            // seconds between two operations of which one waits for the other
  // Where the figures are from, for whoever reads the plan.
  std::string source;

  double usable_bytes() const { return memory_bytes - reserved_bytes; }
};

// Of a published peak, what a well-made kernel sustains: assumptions, used for the table only.
inline constexpr double kSustainedBandwidth = 0.85;
inline constexpr double kSustainedCompute = 0.5;

// Names of the table, "auto" first.
const std::vector<std::string>& MachineNames();

// A machine by name; "auto" measures this one (a few seconds); or "bandwidth=GB/S,memory=GB", with
// optionally "ops=TOPS" (two operations to a multiply-add) and "latency=US" between operations,
// taken as sustained figures. Throws InputError naming the field.
Machine FindMachine(const std::string& text);

}  // namespace antiphon::engine
