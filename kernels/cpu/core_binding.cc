#include "kernels/cpu/core_binding.h"

#include <pthread.h>

namespace antiphon::kernels::cpu {

const cpu_set_t& AllowedCores() {
  static const cpu_set_t allowed = [] {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    sched_getaffinity(0, sizeof cores, &cores);
    return cores;
  }();
  return allowed;
}

void BindToCore(int index) {
  const cpu_set_t& allowed = AllowedCores();
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || seen++ != index) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    return;
  }
}

}  // namespace antiphon::kernels::cpu
