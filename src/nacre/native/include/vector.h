// SIMD vectors by the compiler's vector extensions, and the few functions the kernels share.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

template <typename T, int bytes> struct Simd;
template <int bytes> struct Simd<float, bytes> {
  typedef float Vec __attribute__((vector_size(bytes)));
  typedef int32_t Bits __attribute__((vector_size(bytes)));
  typedef int32_t Int;
};
template <int bytes> struct Simd<double, bytes> {
  typedef double Vec __attribute__((vector_size(bytes)));
  typedef int64_t Bits __attribute__((vector_size(bytes)));
  typedef int64_t Int;
};
template <typename T> using Vec = typename Simd<T, 32>::Vec;
template <typename T> using Bits = typename Simd<T, 32>::Bits;
template <typename T> using Int = typename Simd<T, 32>::Int;
template <typename T> constexpr int kWidth = 32 / sizeof(T);

#ifdef __AVX512F__
constexpr int kWideBytes = 64;
#else
constexpr int kWideBytes = 32;
#endif
// As wide as the processor has them.
template <typename T> using Wide = typename Simd<T, kWideBytes>::Vec;
template <typename T> using WideBits = typename Simd<T, kWideBytes>::Bits;

template <typename V> using Element = std::remove_reference_t<decltype(std::declval<V&>()[0])>;
template <typename V> constexpr int kLength = sizeof(V) / sizeof(Element<V>);

template <typename T> inline Vec<T> load(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <typename V> inline void store(Element<V>* p, V v) { std::memcpy(p, &v, sizeof v); }
template <typename V> inline Element<V> sum(V v) {
  Element<V> s = 0;
  for (int i = 0; i < kLength<V>; ++i) s += v[i];
  return s;
}

// Whether any lane of a mask is set.
template <typename M> inline bool any(M mask) {
  uint64_t words[sizeof mask / 8], found = 0;
  std::memcpy(words, &mask, sizeof mask);
  for (uint64_t word : words) found |= word;
  return found;
}

// Between low and high; NaN stays NaN.
template <typename V> inline V clamp(V x, Element<V> low, Element<V> high) {
  const V least = V{} + low, most = V{} + high;
#ifdef __AVX__
  if constexpr (std::is_same_v<V, Vec<float>>)
    return __builtin_ia32_maxps256(least, __builtin_ia32_minps256(most, x));
#endif
  x = x > most ? most : x;  // comparisons with NaN are false
  return x < least ? least : x;
}

// A function of each number, where speed matters less: double precision is for checks.
template <typename V, typename F> inline V each(V x, F function) {
  for (int i = 0; i < kLength<V>; ++i) x[i] = function(x[i]);
  return x;
}

template <typename V> inline V tanh_of(V x) {
  if constexpr (sizeof(Element<V>) == 8) {
    return each(x, [](double y) { return std::tanh(y); });
  } else {
    // x P(x^2) / Q(x^2), fitted to tanh on [-9.02, 9.02] by tools/fit_tanh.py: off by at most 5e-7, never beyond 1.
    x = clamp(x, -9.02f, 9.02f);
    const V z = x * x;
    V p = z * 1.331898667e-08f + 2.058343334e-05f;
    p = p * z + 3.494032379e-03f;
    p = p * z + 1.337971639e-01f;
    p = p * z + 9.999999791e-01f;
    V q = z * 7.761988338e-07f + 3.283088728e-04f;
    q = q * z + 2.587106578e-02f;
    q = q * z + 4.671303165e-01f;
    q = q * z + 1.0f;
    return clamp(x * p / q, -1.0f, 1.0f);
  }
}

template <typename V> inline V sigmoid_of(V x) {
  constexpr Element<V> half = 0.5;
  return half * tanh_of(half * x) + half;
}

template <typename V> inline V exp_of(V x) {
  if constexpr (sizeof(Element<V>) == 8) {
    return each(x, [](double y) { return std::exp(y); });
  } else {
    // 2^n e^r with |r| <= ln(2) / 2, and the series of e^r: off by at most 2 units in the last place.
    typedef typename Simd<float, sizeof(V)>::Bits Ints;
    x = clamp(x, -87.0f, 88.0f);
    const V shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the whole part is in the last bits
    const V whole = shifted - 12582912.0f;
    const V r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;  // ln(2) in two parts
    V p = r * (1.0f / 5040) + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    Ints bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    bits = (bits - 0x4B400000 + 127) << 23;
    V power;
    std::memcpy(&power, &bits, sizeof power);
    return p * power;
  }
}

// log(1 + y) for y from 0 to 1: 2 artanh(y / (2 + y)).
template <typename V> inline V log1p_of(V y) {
  if constexpr (sizeof(Element<V>) == 8) {
    return each(y, [](double x) { return std::log1p(x); });
  } else {
    const V s = y / (y + 2.0f), z = s * s;
    V p = z * (1.0f / 13) + 1.0f / 11;
    p = p * z + 1.0f / 9;
    p = p * z + 1.0f / 7;
    p = p * z + 1.0f / 5;
    p = p * z + 1.0f / 3;
    p = p * z + 1.0f;
    return 2.0f * s * p;
  }
}
