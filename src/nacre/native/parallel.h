// Threads, where the compiler has OpenMP; one thread otherwise.
#pragma once
#ifdef _OPENMP
#include <omp.h>
inline int thread_number() { return omp_get_thread_num(); }
#else
inline int thread_number() { return 0; }
#endif
