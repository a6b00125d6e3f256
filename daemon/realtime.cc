#include "daemon/realtime.h"

#include <pthread.h>
#include <sched.h>

namespace antiphon::daemon {

RealtimeScope::RealtimeScope(int priority) {
  if (priority <= 0) return;
  sched_param parameters{};
  pthread_getschedparam(pthread_self(), &old_policy_, &parameters);
  old_priority_ = parameters.sched_priority;
  parameters.sched_priority = priority;
  error_ = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters);
  changed_ = error_ == 0;
}

RealtimeScope::~RealtimeScope() {
  if (!changed_) return;
  sched_param parameters{};
  parameters.sched_priority = old_priority_;
  pthread_setschedparam(pthread_self(), old_policy_, &parameters);
}

void BindToFirstCore() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
    return;
  }
}

}  // namespace antiphon::daemon
