#include "kernels/executor.h"
namespace antiphon::kernels {
std::unique_ptr<Executor> MakeCpuExecutor(const CpuExecutorOptions&) { return MakeReferenceExecutor(); }
}
