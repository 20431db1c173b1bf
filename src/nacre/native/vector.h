// SIMD vectors of 32 bytes by the compiler's vector extensions, and the few operations the kernels share.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

template <typename T> struct Simd;
template <> struct Simd<float> {
  typedef float Vec __attribute__((vector_size(32)));
  typedef int32_t Bits __attribute__((vector_size(32)));
  typedef int32_t Int;
};
template <> struct Simd<double> {
  typedef double Vec __attribute__((vector_size(32)));
  typedef int64_t Bits __attribute__((vector_size(32)));
  typedef int64_t Int;
};
template <typename T> using Vec = typename Simd<T>::Vec;
template <typename T> using Bits = typename Simd<T>::Bits;
template <typename T> using Int = typename Simd<T>::Int;
template <typename T> constexpr int kWidth = 32 / sizeof(T);

template <typename T> inline Vec<T> load(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <typename T> inline void store(T* p, Vec<T> v) { std::memcpy(p, &v, sizeof v); }
template <typename T> inline T sum(Vec<T> v) {
  T s = 0;
  for (int i = 0; i < kWidth<T>; ++i) s += v[i];
  return s;
}

// Between low and high; NaN stays NaN.
template <typename T> inline Vec<T> clamp(Vec<T> x, T low, T high) {
  const Vec<T> least = Vec<T>{} + low, most = Vec<T>{} + high;
#ifdef __AVX__
  if constexpr (sizeof(T) == 4) return __builtin_ia32_maxps256(least, __builtin_ia32_minps256(most, x));
#endif
  x = x > most ? most : x;  // comparisons with NaN are false
  return x < least ? least : x;
}

// x P(x^2) / Q(x^2), fitted to tanh on [-9.02, 9.02] by tools/fit_tanh.py: off by at most 5e-7, never beyond 1.
inline Vec<float> tanh_of(Vec<float> x) {
  x = clamp(x, -9.02f, 9.02f);
  const Vec<float> z = x * x;
  Vec<float> p = z * 1.331898667e-08f + 2.058343334e-05f;
  p = p * z + 3.494032379e-03f;
  p = p * z + 1.337971639e-01f;
  p = p * z + 9.999999791e-01f;
  Vec<float> q = z * 7.761988338e-07f + 3.283088728e-04f;
  q = q * z + 2.587106578e-02f;
  q = q * z + 4.671303165e-01f;
  q = q * z + 1.0f;
  return clamp(x * p / q, -1.0f, 1.0f);
}

inline Vec<double> tanh_of(Vec<double> x) {  // double precision is for checks, where speed matters less
  for (int i = 0; i < kWidth<double>; ++i) x[i] = std::tanh(x[i]);
  return x;
}

template <typename T> inline Vec<T> sigmoid_of(Vec<T> x) { return T(0.5) * tanh_of(T(0.5) * x) + T(0.5); }
