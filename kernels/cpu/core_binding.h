// Which cores threads are bound to.
#pragma once

#include <sched.h>

namespace antiphon::kernels::cpu {

// The cores that this process could use when somebody first asked. Not what the calling thread may
// use now: once it is bound to a core, threads that it makes would inherit that core alone.
// Any thread.
const cpu_set_t& AllowedCores();

// Binds the calling thread to the index-th of AllowedCores(). Does nothing where there are not so
// many, or where the system refuses.
void BindToCore(int index);

}  // namespace antiphon::kernels::cpu
