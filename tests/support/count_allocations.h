// Counts what operator new is asked for in the whole program. In a file of its own, so that no
// caller is compiled knowing what it is made of.
#pragma once

namespace antiphon {

void BeginCountingAllocations();
int EndCountingAllocations();

}  // namespace antiphon
