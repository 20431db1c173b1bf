// One step of many streams in one call: sensory neurons, memory, choice of keys, pair stage and output. The same as
// `NAC.step` in PyTorch, in place.
#include <cmath>
#include <vector>

#include "best_keys.h"
#include "pair_block.h"

// The weights of a layer, laid out once for many steps. F inputs, H heads of width D, E numbers of the match, P columns.
extern "C" struct StepLayer {
  int64_t inputs, match_width, near, wanted, activation, owners;  // blocks wanted beside the newest one
  const void *sensory, *sensory_bias, *sensory_scale, *sensory_shift;  // [F, 3 H D] of q, k and v, then [3 H D] each
  const void *by_query, *by_key, *drive_bias;                          // [H or 1, D, P] twice, [H or 1, P]
  const void *gain, *time_weight, *time_bias;                          // [H], [H, 2 D, 2], [H, 2]
  const void *out_weight, *out_bias;                                   // [H D, H D] from input to output, [H D]
  const double* periods;                                               // [scales] of the clock
  const void* const* owner;  // [owners] where the live weights are of which `laid_owner` holds some
  const int64_t* owner_size;
  const void* laid_owner;
};

// A ring of n blocks of b keys for each of B streams, as in nacre/layer/streaming.py.
extern "C" struct StepMemory {
  int64_t streams, blocks, size, limit;
  void *key, *value;                  // [B, H, n, b, D]
  double* stamp;                      // [B, n, b]
  void *offered, *centroid;           // [B, H, n, b, E], [B, H, n, E or D]
  double* origin;                     // [B]
  const int64_t* length;              // [B]
  const void* owner;
};

namespace {

enum Refusal : int { kFine = 0, kRefused = 1, kStale = 2 };

// out [columns] += x [rows] times weight [rows, columns]
template <typename T> void multiply(const T* x, const T* weight, int64_t rows, int64_t columns, T* __restrict out) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) out[j] += x[i] * weight[i * columns + j];
}

template <typename T> class Steps {
  const Program& c;
  const StepLayer& l;
  const StepMemory& m;
  const double* time;  // [B], or null
  const int64_t B, H, D, E, K, P;
  Pairs p;
  std::vector<T> query, key, value, query_gate, key_gate, asked, offered, query_phase, key_phase, heads;
  std::vector<double> key_stamp;
  std::vector<int64_t> index;
  std::vector<uint8_t> valid;

 public:
  Steps(const Program& c, const Pairs& pairs, const StepLayer& l, const StepMemory& m, const double* time)
      : c(c), l(l), m(m), time(time), B(m.streams), H(pairs.heads), D(pairs.value_width), E(l.match_width),
        K(pairs.selected), P(c.columns), p(pairs), query(H * B * P), key(H * B * K * P), value(B * K * H * D),
        asked(B * H * E), offered(B * K * H * E), heads(B * H * D), index(H * B * K), valid(H * B * K) {
    p.queries = B, p.keys = B * K;
    p.query = query.data(), p.key = key.data(), p.value = value.data();
    p.index = index.data(), p.valid = valid.data();
    if (l.time_weight) {
      query_gate.resize(H * 2 * B), key_gate.resize(H * 2 * B * K);
      p.query_gate = query_gate.data(), p.key_gate = key_gate.data();
      if (time) key_stamp.resize(H * B * K), p.query_stamp = time, p.key_stamp = key_stamp.data();
    }
    if (E) p.asked = asked.data(), p.offered = offered.data();
    if (p.scales) {
      query_phase.resize(B * 2 * p.scales), key_phase.resize(H * B * K * 2 * p.scales);
      p.query_phase = query_phase.data(), p.key_phase = key_phase.data();
    }
  }

  // Whether a stream cannot take this step, or the weights are no longer those that were laid out.
  Refusal check() const {
    const T *laid = at<T>(l.laid_owner), *wanted = at<T>(m.owner);
    for (int64_t i = 0; i < l.owners; ++i)
      for (int64_t j = 0; j < l.owner_size[i]; ++j, ++laid, ++wanted) {
        const T live = at<T>(l.owner[i])[j];
        if (live != *wanted) return kRefused;
        if (live != *laid) return kStale;
      }
    for (int64_t s = 0; s < B; ++s) {
      if (m.length[s] < 0 || (m.limit && m.length[s] >= m.limit)) return kRefused;
      if (time && !std::isfinite(time[s])) return kRefused;
      if (!m.length[s]) continue;
      const double last = m.stamp[s * m.blocks * m.size + (m.length[s] - 1) % (m.blocks * m.size)];
      if (std::isnan(last) == (time != nullptr) || (time && time[s] < last)) return kRefused;
    }
    return kFine;
  }

  void run(const T* x, T* y, int threads) {
    if (B == 1) threads = 1;  // waking threads would take longer
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
      std::vector<T> sensory(3 * H * D + kLength<Wide<T>>);
      Best<T> blocks(l.wanted), keys(std::max<int64_t>(K - l.near, 1));
#pragma omp for
      for (int64_t s = 0; s < B; ++s) {
        sense(x + s * l.inputs, sensory.data());
        remember(s, sensory.data() + H * D, sensory.data() + 2 * H * D);
        for (int64_t h = 0; h < H; ++h) {
          ask(s, h, sensory.data() + h * D);
          choose(s, h, sensory.data() + h * D, blocks, keys);
          for (int64_t j = 0; j < K; ++j)
            if (valid[(h * B + s) * K + j]) recall(s, h, j);
        }
      }
    }
    attend_all(c, p, static_cast<const Seen*>(nullptr), heads.data(), threads);
    for (int64_t s = 0; s < B; ++s) {
      std::copy_n(at<T>(l.out_bias), H * D, y + s * H * D);
      multiply(heads.data() + s * H * D, at<T>(l.out_weight), H * D, H * D, y + s * H * D);
    }
  }

 private:
  // q, k and v [3 H D] of an input.
  void sense(const T* x, T* out) const {
    const int64_t count = 3 * H * D;
    std::copy_n(at<T>(l.sensory_bias), count, out);
    multiply(x, at<T>(l.sensory), l.inputs, count, out);
    for (int64_t i = 0; i < count; i += kLength<Wide<T>>) {
      Wide<T> v;
      std::memcpy(&v, out + i, sizeof v);
      v = activate(v, l.activation);
      std::memcpy(out + i, &v, sizeof v);
    }
    for (int64_t i = 0; i < count; ++i) out[i] = out[i] * at<T>(l.sensory_scale)[i] + at<T>(l.sensory_shift)[i];
  }

  int64_t ring(int64_t s, int64_t h) const { return (s * H + h) * m.blocks * m.size; }

  // A vector [D] at a length just below 1, times a factor.
  void unit(const T* x, T factor, T* out) const {
    T square = 0;
    for (int64_t d = 0; d < D; ++d) square += x[d] * x[d];
    const T size = factor / std::sqrt(square + T(1e-6));
    for (int64_t d = 0; d < D; ++d) out[d] = x[d] * size;
  }

  void remember(int64_t s, const T* k, const T* v) const {
    const int64_t place = m.length[s] % (m.blocks * m.size), block = place / m.size, width = E ? E : D;
    m.stamp[s * m.blocks * m.size + place] = time ? time[s] : std::nan("");
    if (time && !m.length[s]) m.origin[s] = time[s];
    for (int64_t h = 0; h < H; ++h) {
      std::copy_n(k + h * D, D, at<T>(m.key, (ring(s, h) + place) * D));
      std::copy_n(v + h * D, D, at<T>(m.value, (ring(s, h) + place) * D));
      if (E) unit(k + h * D, T(1), at<T>(m.offered, (ring(s, h) + place) * E));
      const T* first = at<T>(E ? m.offered : m.key, (ring(s, h) + block * m.size) * width);
      T* mean = at<T>(m.centroid, ((s * H + h) * m.blocks + block) * width);
      std::fill_n(mean, width, T(0));
      for (int64_t i = 0; i < m.size; ++i)
        for (int64_t d = 0; d < width; ++d) mean[d] += first[i * width + d];
      for (int64_t d = 0; d < width; ++d) mean[d] /= T(m.size);
    }
  }

  // What the newest step of a stream asks.
  void ask(int64_t s, int64_t h, const T* q) {
    const int64_t own = p.weight_heads == 1 ? 0 : h;
    T* drive = query.data() + (h * B + s) * P;
    std::copy_n(at<T>(l.drive_bias, own * P), P, drive);
    multiply(q, at<T>(l.by_query, own * D * P), D, P, drive);
    if (E) unit(q, at<T>(l.gain)[h], asked.data() + (s * H + h) * E);
    if (p.query_gate) time_shares(q, at<T>(l.time_weight, h * 4 * D), at<T>(l.time_bias, h * 2), &query_gate[h * 2 * B + s], B);
    for (int64_t i = 0; i < p.scales; ++i) query_phase[s * 2 * p.scales + i] = 1;  // the clock counts from here
  }

  // Shares of t_a and t_b, `apart` from each other.
  void time_shares(const T* x, const T* weight, const T* bias, T* out, int64_t apart) const {
    T share[2] = {bias ? bias[0] : T(0), bias ? bias[1] : T(0)};
    for (int64_t d = 0; d < D; ++d) share[0] += x[d] * weight[2 * d], share[1] += x[d] * weight[2 * d + 1];
    out[0] = share[0], out[apart] = share[1];
  }

  // Offer `count` rows, the first of which is at `position`, to the best.
  void offer(const T* rows, const T* q, int64_t width, int64_t count, int64_t position, Best<T>& best) const {
    constexpr int kAtOnce = 8;  // hides the latency of additions
    for (int64_t i = 0; i < count; i += kAtOnce) {
      T score[kAtOnce] = {};
      const int64_t here = std::min<int64_t>(kAtOnce, count - i);
      for (int64_t d = 0; d < width; ++d)
        for (int64_t j = 0; j < here; ++j) score[j] += q[d] * rows[(i + j) * width + d];
      for (int64_t j = 0; j < here; ++j) {
        Vec<T> one = {};
        one[0] = score[j];
        const Int<T> order = ordered(one)[0];
        if (order >= best.bar) best.offer(order, position + i + j);
      }
    }
  }

  // Places of the keys of the newest step in the ring, in order of time.
  void choose(int64_t s, int64_t h, const T* q, Best<T>& blocks, Best<T>& keys) {
    const int64_t newest = m.length[s], own = newest / m.size, first = std::max<int64_t>(own - m.blocks + 1, 0);
    const int64_t width = E ? E : D, room = m.blocks * m.size;
    const T* sought = E ? asked.data() + (s * H + h) * E : q;
    const T *means = at<T>(m.centroid, (s * H + h) * m.blocks * width), *rows = at<T>(E ? m.offered : m.key, ring(s, h) * width);
    int64_t* chosen = index.data() + (h * B + s) * K;
    uint8_t* found = valid.data() + (h * B + s) * K;
    int64_t count = K - l.near;
    keys.clear();
    if (count) {
      const int64_t stop = newest - l.near + 1;  // the latest ones are the near keys
      const auto search = [&](int64_t block) {
        const int64_t from = block * m.size, to = std::min(from + m.size, stop);
        offer(rows + from % room * width, sought, width, std::max<int64_t>(to - from, 0), from, keys);
      };
      blocks.clear();
      for (int64_t block = first; block < own; ++block)
        offer(means + block % m.blocks * width, sought, width, 1, block, blocks);
      blocks.sort_by_position();
      for (int64_t i = 0; i < blocks.found; ++i) search(blocks.item[i].second);
      search(own);
      keys.sort_by_position();
    }
    for (int64_t j = 0; j < K; ++j) {
      const int64_t position = j < count ? (j < keys.found ? keys.item[j].second : -1) : newest + 1 - K + j;
      found[j] = position >= first * m.size;
      chosen[j] = found[j] ? position : 0;
    }
  }

  // What the circuit and the gates need of a chosen key; then its index is that of its row here.
  void recall(int64_t s, int64_t h, int64_t j) {
    const int64_t row = s * K + j, own = p.weight_heads == 1 ? 0 : h;
    int64_t& chosen = index[(h * B + s) * K + j];
    const int64_t place = chosen % (m.blocks * m.size), ago = m.length[s] - chosen;
    chosen = row;
    const T* k = at<T>(m.key, (ring(s, h) + place) * D);
    multiply(k, at<T>(l.by_key, own * D * P), D, P, key.data() + (h * B * K + row) * P);
    std::copy_n(at<T>(m.value, (ring(s, h) + place) * D), D, value.data() + (row * H + h) * D);
    if (E) std::copy_n(at<T>(m.offered, (ring(s, h) + place) * E), E, offered.data() + (row * H + h) * E);
    const double stamp = m.stamp[s * m.blocks * m.size + place];
    if (p.query_gate)
      time_shares(k, at<T>(l.time_weight, h * 4 * D + 2 * D), nullptr, &key_gate[h * 2 * B * K + row], B * K);
    if (p.key_stamp) key_stamp[h * B * K + row] = stamp;
    const double moment = time ? (stamp - time[s]) / p.time_scale : -double(ago);
    T* phase = p.scales ? key_phase.data() + (h * B * K + row) * 2 * p.scales : nullptr;
    for (int64_t i = 0; i < p.scales; ++i) {
      const double turns = std::min(std::max(moment, -1e30), 1e30) / l.periods[i];
      const T angle = T(2 * M_PI * (turns - std::floor(turns)));
      phase[i] = std::cos(angle), phase[p.scales + i] = std::sin(angle);
    }
  }
};

template <typename T>
int step(const Program* c, const Pairs* p, const StepLayer* l, const StepMemory* m, const T* x, const double* time, T* y,
         int threads) {
  Steps<T> steps(*c, *p, *l, *m, time);
  const Refusal refusal = steps.check();
  if (refusal == kFine) steps.run(x, y, threads);
  return refusal;
}

}  // namespace

extern "C" {
int nacre_step_f32(const Program* c, const Pairs* p, const StepLayer* l, const StepMemory* m, const float* x,
                   const double* time, float* y, int threads) {
  return step(c, p, l, m, x, time, y, threads);
}
int nacre_step_f64(const Program* c, const Pairs* p, const StepLayer* l, const StepMemory* m, const double* x,
                   const double* time, double* y, int threads) {
  return step(c, p, l, m, x, time, y, threads);
}
}
