// Functions that GPUs run, too, where they are compiled for them.
#pragma once

#ifdef __CUDACC__
#define HEADRACE_DEVICE __host__ __device__
#else
#define HEADRACE_DEVICE
#endif
