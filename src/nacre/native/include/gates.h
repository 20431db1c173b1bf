// From motor neurons to logits and back, a vector of pairs at a time: phi, omega, t and the solution of the logit's
// equation da/dt = -omega a + phi, as in nacre/layer/dynamics.py.
#pragma once
#include "vector.h"

namespace {

enum Phi : int32_t { kPhiSigmoid = 0, kPhiTanh = 1, kPhiLinear = 2 };
enum Mode : int32_t { kExact = 0, kEuler = 1, kSteady = 2 };
enum Match : int32_t { kNoMatch = 0, kAdded = 1, kStart = 2 };

constexpr double kSeriesBelow = 0.5;  // below this the closed forms lose digits
template <typename T> constexpr int kTerms = sizeof(T) == 4 ? 9 : 18;

struct GateOptions {
  int32_t phi, mode, match, euler_steps, has_time, inhibits;
  double omega_min;
};

// What a pair's gates are computed from.
template <typename V> struct GateInputs {
  V motor[3];       // after the output map: of phi, of omega, and of the effect where the layer inhibits
  V t_a, t_b;       // where the layer has a time gate
  V elapsed, match;
};

template <typename V> struct Gates {
  V squashed;  // motor 0 through phi's function
  V phi, omega, t, logit, effect;
  V gain, gain_slope, rest, rest_slope;  // (1 - rest) / z and the share of a0 that is left, at z = omega t
};

template <typename V> inline V logistic(V x) {
  const V one = V{} + Element<V>(1);
  return one / (one + exp_of(-x));
}

// Gain and rest of explicit Euler steps, one number at a time: this mode is for comparison.
template <typename T> void euler(T z, int32_t least, T* gain, T* gain_slope, T* rest, T* rest_slope) {
  const double steps = std::max(std::ceil(double(z)), double(least)), left = 1 - z / steps;
  const double r = std::pow(left, steps), by_r = -std::pow(left, steps - 1);
  double g = (1 - r) / z, by_g = (-by_r - g) / z;
  if (z < kSeriesBelow) {
    g = 1, by_g = 0;
    for (int k = kTerms<double>; k > 0; --k) {
      const double factor = (1 - k / steps) / (k + 1);
      by_g = -factor * (g + z * by_g);
      g = 1 - factor * z * g;
    }
  }
  *gain = T(g), *gain_slope = T(by_g), *rest = T(r), *rest_slope = T(by_r);
}

template <typename V> void solve(const GateOptions& o, V z, Gates<V>* out) {
  typedef Element<V> T;
  if (o.mode == kEuler) {
    for (int i = 0; i < kLength<V>; ++i) {
      T g[4];
      euler<T>(z[i], o.euler_steps, g, g + 1, g + 2, g + 3);
      out->gain[i] = g[0], out->gain_slope[i] = g[1], out->rest[i] = g[2], out->rest_slope[i] = g[3];
    }
    return;
  }
  const V one = V{} + T(1), rest = exp_of(-z);
  const auto small = z < (V{} + T(kSeriesBelow));
  // 1 - z/2 (1 - z/3 (1 - ...)), and its derivative by the same scheme.
  V series = one, by_series = {};
  for (int k = kTerms<T>; k > 0; --k) {
    const T factor = T(1) / T(k + 1);
    by_series = -factor * (series + z * by_series);
    series = one - factor * z * series;
  }
  const V far = small ? one : z, gain = (one - rest) / far;
  out->gain = small ? series : gain;
  out->gain_slope = small ? by_series : (rest - gain) / far;
  out->rest = rest;
  out->rest_slope = -rest;
}

template <typename V> Gates<V> run_gates(const GateOptions& o, const GateInputs<V>& in) {
  typedef Element<V> T;
  const V zero = {};
  Gates<V> out;
  const V m = in.motor[0], w = in.motor[1];
  out.squashed = o.phi == kPhiSigmoid ? logistic(m) : o.phi == kPhiTanh ? tanh_of(m) : m;
  out.phi = o.match == kAdded ? out.squashed + in.match : out.squashed;
  const V size = w < zero ? -w : w;
  out.omega = (w > zero ? w : zero) + log1p_of(exp_of(-size)) + T(o.omega_min);
  out.t = o.has_time ? logistic(in.t_b - in.t_a * in.elapsed) : zero;
  out.effect = zero + T(1);
  if (o.inhibits) out.effect += in.motor[2];
  if (o.mode == kSteady) {
    out.logit = out.phi / out.omega;
    return out;
  }
  solve(o, out.omega * out.t, &out);
  out.logit = out.phi * out.t * out.gain;
  if (o.match == kStart) out.logit += in.match * out.rest;
  return out;
}

// Gradients of the inputs from those of the logit, of t and of the effect; the fields of `in` come out as gradients.
template <typename V>
GateInputs<V> gates_back(const GateOptions& o, const GateInputs<V>& in, const Gates<V>& g, V by_logit, V by_t,
                         V by_effect) {
  typedef Element<V> T;
  const V one = V{} + T(1);
  GateInputs<V> out = {};
  V by_phi, by_omega;
  if (o.mode == kSteady) {
    by_phi = by_logit / g.omega;
    by_omega = -by_phi * g.logit;
  } else {
    const V start = o.match == kStart ? in.match : V{};
    const V by_z = by_logit * (g.phi * g.t * g.gain_slope + start * g.rest_slope);
    by_phi = by_logit * g.t * g.gain;
    by_omega = by_z * g.t;
    by_t += by_logit * g.phi * g.gain + by_z * g.omega;
  }
  out.match = o.match == kStart ? by_logit * g.rest : by_phi;
  const V s = g.squashed;
  out.motor[0] = o.phi == kPhiSigmoid ? by_phi * s * (one - s) : o.phi == kPhiTanh ? by_phi * (one - s * s) : by_phi;
  out.motor[1] = by_omega * logistic(in.motor[1]);
  out.motor[2] = by_effect;
  const V by_exponent = o.has_time ? by_t * g.t * (one - g.t) : V{};
  out.t_b = by_exponent;
  out.t_a = -by_exponent * in.elapsed;
  return out;
}

}  // namespace
