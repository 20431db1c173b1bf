// A few queries of one head with their selected keys: circuits, gates, logits, attention weights and the sum of values.
#pragma once
#include <algorithm>
#include <vector>

#include "circuit.h"
#include "gates.h"

extern "C" struct Pairs {
  int64_t heads, queries, keys, selected;  // H, R, S, K
  int64_t weight_heads;                    // 1 where all heads share one circuit, else H
  int64_t motors;                          // motor neurons M: 2, or 3 where one inhibits
  int64_t value_width, match_width, scales;  // D, E, number of scales of the clock
  int64_t stamp_heads;                       // H where each head has keys of its own, else 1
  int32_t phi, mode, match, euler_steps, integrate;
  double omega_min, time_scale, longest;
  const void *query, *key, *value;        // [H, R, P], [H, S, P], [S, H, D]
  const void *query_gate, *key_gate;      // [H, 2, R], [H, 2, S]; null without a time gate
  const void *asked, *offered;            // [R, H, E], [S, H, E]; null without match
  const void *weight, *constant;          // [weight_heads, synapses], [weight_heads, constants]
  const void *scale, *shift;              // [weight_heads, M] output map of the motor neurons
  const double *query_stamp, *key_stamp;  // [R], [stamp_heads, S]; null: elapsed time 1
  const void *query_phase, *key_phase;    // [R, 2 scales], [stamp_heads, S, 2 scales] cosines, then sines
  const int64_t* index;                   // [H, R, K] rows of key
  const uint8_t* valid;                   // [H, R, K]
  const void* keep;                       // [H, R, K] factors of dropout; null without
};

// What an observer sees, each null if it does not want it.
extern "C" struct Seen {
  void *phi, *omega, *t, *logits, *weights, *match, *effect;  // [H, R, K]
  void *clock, *states;                                       // [H, R, K, 2 scales], [rows, H, R, K]
};

namespace {

template <typename T> const T* at(const void* p, int64_t i = 0) { return p ? static_cast<const T*>(p) + i : nullptr; }
template <typename T> T* at(void* p, int64_t i = 0) { return p ? static_cast<T*>(p) + i : nullptr; }

// Some queries of one head, and the memory to work on their pairs. Only valid pairs are there.
template <typename T> struct Block {
  const Program& c;
  const Pairs& p;
  const GateOptions options;
  const int64_t room;               // pairs, a multiple of the lanes
  int64_t head, first, last, used;  // queries [first, last)
  std::vector<int64_t> row, key, place;    // [room] of each pair: its query, its key, its place in [R, K]
  std::vector<int64_t> begin;              // [queries + 1] first pair of each query
  std::vector<Wide<T>> drive, clock, x;    // [columns, lanes], [2 scales, lanes], [rows, lanes] of one tile
  std::vector<Wide<T>> phase[2];           // [2 scales, lanes]
  std::vector<Wide<T>> motor[3], t_a, t_b, elapsed, match, weight;  // [room]
  std::vector<Gates<Wide<T>>> gates;                                // [room]
  int64_t tile_in_x = -1;                  // whose states x holds

  static int64_t queries(const Pairs& p) { return std::max<int64_t>(1, kLanes / p.selected); }
  static int64_t size(const Pairs& p) { return (queries(p) * p.selected + kLanes - 1) / kLanes * kLanes; }

  Block(const Program& c, const Pairs& p)
      : c(c), p(p), options{p.phi, p.mode, p.match, p.euler_steps, p.query_gate != nullptr, p.motors > 2,
                           p.omega_min},
        room(size(p)), row(room), key(room), place(room), begin(queries(p) + 1) {
    const int64_t vecs = room * sizeof(T) / kWideBytes;
    drive.resize(c.columns * kVecs<T>);
    clock.resize(2 * p.scales * kVecs<T>);
    for (auto& one : phase) one.resize(clock.size());
    x.resize(c.rows * kVecs<T>);
    for (auto* one : {&motor[0], &motor[1], &motor[2], &t_a, &t_b, &elapsed, &match, &weight}) one->resize(vecs);
    gates.resize(vecs);
  }

  static T* lanes(std::vector<Wide<T>>& v) { return reinterpret_cast<T*>(v.data()); }
  int64_t keys_before() const { return p.stamp_heads == 1 ? 0 : head * p.keys; }  // in stamps and phases
  int64_t own() const { return p.weight_heads == 1 ? 0 : head; }

  // List the valid pairs; false if there is none. Pairs past the end repeat the last one.
  bool open(int64_t of_head, int64_t number) {
    head = of_head, first = number * queries(p), last = std::min(first + queries(p), p.queries);
    used = 0, tile_in_x = -1;
    for (int64_t r = first; r < last; ++r) {
      begin[r - first] = used;
      for (int64_t k = r * p.selected; k < (r + 1) * p.selected; ++k)
        if (p.valid[head * p.queries * p.selected + k])
          row[used] = r, key[used] = p.index[head * p.queries * p.selected + k], place[used++] = k;
    }
    begin[last - first] = used;
    for (int64_t i = std::max<int64_t>(used, 1); i < room; ++i) row[i] = row[i - 1], key[i] = key[i - 1];
    return used > 0;
  }

  int64_t tiles() const { return (used + kLanes - 1) / kLanes; }

  // Settle the circuits of a tile, into x.
  void settle(int64_t tile) {
    if (tile_in_x == tile) return;
    tile_in_x = tile;
    const T *q[kLanes], *k[kLanes];
    point(tile, at<T>(p.query, head * p.queries * c.columns), at<T>(p.key, head * p.keys * c.columns), c.columns, q, k);
    gather<T>(q, k, c.columns, lanes(drive));
    if (p.scales) {
      point(tile, at<T>(p.query_phase), at<T>(p.key_phase, keys_before() * 2 * p.scales), 2 * p.scales, q, k);
      gather<T>(q, nullptr, 2 * p.scales, lanes(phase[0]));
      gather<T>(k, nullptr, 2 * p.scales, lanes(phase[1]));
      const int64_t half = p.scales * kVecs<T>;
      for (int64_t i = 0; i < half; ++i) {  // cosine and sine of a difference
        const Wide<T> c0 = phase[0][i], s0 = phase[0][half + i], c1 = phase[1][i], s1 = phase[1][half + i];
        clock[i] = c0 * c1 + s0 * s1;
        clock[half + i] = s0 * c1 - c0 * s1;
      }
    }
    run_rows<T>(c, drive.data(), clock.data(), at<T>(p.weight, own() * c.synapses),
                at<T>(p.constant, own() * c.constants), x.data());
  }

  // Where the rows of a tile's pairs begin, of queries in q and of keys in k.
  void point(int64_t tile, const T* by_query, const T* by_key, int64_t stride, const T** q, const T** k) const {
    for (int i = 0; i < kLanes; ++i) {
      q[i] = by_query + row[tile * kLanes + i] * stride;
      k[i] = by_key + key[tile * kLanes + i] * stride;
    }
  }

  // Numbers of each pair beside its circuit.
  void read_pairs() {
    const int64_t pairs = tiles() * kLanes;
    if (p.query_gate) read_times(pairs);
    if (!p.asked) return;
    const T *q[kLanes], *k[kLanes];
    for (int64_t tile = 0; tile < tiles(); ++tile) {
      point(tile, at<T>(p.asked, head * p.match_width), at<T>(p.offered, head * p.match_width),
            p.heads * p.match_width, q, k);
      dot<T>(q, k, p.match_width, lanes(match) + tile * kLanes);
    }
  }

  void read_times(int64_t pairs) {
    const T *qg = at<T>(p.query_gate, head * 2 * p.queries), *kg = at<T>(p.key_gate, head * 2 * p.keys);
    T *a = lanes(t_a), *b = lanes(t_b), *dt = lanes(elapsed);
    const int64_t *r = row.data(), *k = key.data();
    for (int64_t i = 0; i < pairs; ++i) a[i] = qg[r[i]] + kg[k[i]];
    for (int64_t i = 0; i < pairs; ++i) b[i] = qg[p.queries + r[i]] + kg[p.keys + k[i]];
    if (!p.query_stamp) {
      std::fill(dt, dt + pairs, T(1));
      return;
    }
    const double *now = p.query_stamp, *then = p.key_stamp + keys_before(), scale = p.time_scale, most = p.longest;
    for (int64_t i = 0; i < pairs; ++i) dt[i] = T(std::min(std::abs(now[r[i]] - then[k[i]]) / scale, most));
  }

  GateInputs<Wide<T>> inputs(int64_t v) {
    GateInputs<Wide<T>> in = {};
    const T *scale = at<T>(p.scale, own() * p.motors), *shift = at<T>(p.shift, own() * p.motors);
    for (int o = 0; o < p.motors; ++o) in.motor[o] = motor[o][v] * scale[o] + shift[o];
    if (p.query_gate) in.t_a = t_a[v], in.t_b = t_b[v], in.elapsed = elapsed[v];
    if (p.asked) in.match = match[v];
    return in;
  }

  // Everything up to the attention weights.
  void attend(const Seen* seen) {
    for (int64_t tile = 0; tile < tiles(); ++tile) {
      settle(tile);
      for (int o = 0; o < p.motors; ++o)
        std::copy_n(x.data() + (c.rows - p.motors + o) * kVecs<T>, kVecs<T>, motor[o].data() + tile * kVecs<T>);
      if (seen) show_states(*seen, tile);
    }
    read_pairs();
    constexpr int width = kLength<Wide<T>>;
    const int64_t vecs = tiles() * kVecs<T>;
    T* w = lanes(weight);
    for (int64_t v = 0; v < vecs; ++v) gates[v] = run_gates(options, inputs(v)), weight[v] = gates[v].logit;
    for (int64_t g = 0; g < last - first; ++g) {
      if (begin[g] == begin[g + 1]) continue;
      const T top = *std::max_element(w + begin[g], w + begin[g + 1]);
      for (int64_t i = begin[g]; i < begin[g + 1]; ++i) w[i] -= top;
    }
    for (int64_t v = 0; v < vecs; ++v) weight[v] = exp_of(weight[v]);
    for (int64_t g = 0; g < last - first; ++g) {
      T total = 0;
      for (int64_t i = begin[g]; i < begin[g + 1]; ++i) total += w[i];
      for (int64_t i = begin[g]; i < begin[g + 1]; ++i) w[i] /= total;
    }
    if (seen) show_gates(*seen, width);
  }

  T t_of(int64_t i) const { return p.integrate ? gates[i / kLength<Wide<T>>].t[i % kLength<Wide<T>>] : T(1); }
  T effect_of(int64_t i) const { return gates[i / kLength<Wide<T>>].effect[i % kLength<Wide<T>>]; }
  T kept(int64_t i) const { return p.keep ? at<T>(p.keep, head * p.queries * p.selected)[place[i]] : T(1); }
  T share(int64_t i) { return lanes(weight)[i] * kept(i) * t_of(i) * effect_of(i); }

  void mix(T* out) {
    for (int64_t r = first; r < last; ++r) {
      T* y = out + (r * p.heads + head) * p.value_width;
      for (int64_t i = begin[r - first]; i < begin[r - first + 1]; ++i) {
        const T s = share(i), *v = at<T>(p.value, (key[i] * p.heads + head) * p.value_width);
        for (int64_t d = 0; d < p.value_width; ++d) y[d] += s * v[d];
      }
    }
  }

  void show_states(const Seen& seen, int64_t tile) {
    const int64_t pairs = p.queries * p.selected, stop = std::min(used - tile * kLanes, int64_t(kLanes));
    for (int64_t i = 0; i < stop; ++i) {
      const int64_t to = head * pairs + place[tile * kLanes + i];
      if (seen.states)
        for (int32_t row = 0; row < c.rows; ++row)
          at<T>(seen.states)[row * p.heads * pairs + to] = lanes(x)[row * kLanes + i];
      if (seen.clock)
        for (int64_t n = 0; n < 2 * p.scales; ++n)
          at<T>(seen.clock)[to * 2 * p.scales + n] = lanes(clock)[n * kLanes + i];
    }
  }

  void show_gates(const Seen& seen, int width) {
    for (int64_t i = 0; i < used; ++i) {
      const int64_t to = head * p.queries * p.selected + place[i];
      const Gates<Wide<T>>& g = gates[i / width];
      const int lane = i % width;
      const std::pair<void*, T> all[] = {{seen.phi, g.phi[lane]},       {seen.omega, g.omega[lane]},
                                         {seen.t, g.t[lane]},           {seen.logits, g.logit[lane]},
                                         {seen.weights, lanes(weight)[i]}, {seen.match, lanes(match)[i]},
                                         {seen.effect, g.effect[lane]}};
      for (const auto& [out, value] : all)
        if (out) at<T>(out)[to] = value;
    }
  }
};

template <typename T> int64_t blocks_of(const Pairs& p) {
  return (p.queries + Block<T>::queries(p) - 1) / Block<T>::queries(p);
}

// Everything, in jobs of a few queries of one head.
template <typename T> void attend_all(const Program& c, const Pairs& p, const Seen* seen, T* out, int threads) {
  const int64_t blocks = blocks_of<T>(p);
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    Block<T> block(c, p);
#pragma omp for schedule(dynamic, 8)
    for (int64_t job = 0; job < p.heads * blocks; ++job)
      if (block.open(job / blocks, job % blocks)) {
        block.attend(seen);
        block.mix(out);
      }
  }
}

}  // namespace
