// The pair stage of a layer in one pass, forward and backward, a few queries at a time. Backward computes all of forward
// again, so nothing of the size of pairs times neurons is ever stored.
#ifdef _OPENMP
#include <omp.h>
#endif

#include "pair_block.h"

extern "C" struct PairGrads {
  void *query, *key, *value, *query_gate, *key_gate, *asked, *offered, *weight, *constant, *scale, *shift;
};

namespace {

#ifdef _OPENMP
inline int thread_number() { return omp_get_thread_num(); }
#else
inline int thread_number() { return 0; }
#endif

constexpr int64_t kChunkNumbers = 1 << 18;  // gradients of pairs that are held before they are added up by key

// Gradients of the pairs of a block that belong to its keys, held until all threads have theirs: for each pair the input
// drive, t_a, t_b, match, and the share of the value.
enum Held : int64_t { kByTa = 0, kByTb = 1, kByMatch = 2, kShare = 3, kNumbers = 4 };

template <typename T> inline void add(const T* __restrict from, T factor, int64_t count, T* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

template <typename T> struct BackBlock : Block<T> {
  using Block<T>::c;
  using Block<T>::p;
  using Block<T>::head;
  using Block<T>::first;
  using Block<T>::last;
  using Block<T>::begin;
  using Block<T>::row;
  using Block<T>::key;
  using Block<T>::lanes;

  const PairGrads& grads;
  std::vector<Wide<T>> g, by_drive, by_weight, by_constant, by_motor[3], by_logit, by_t, by_effect;
  std::vector<T> weight_by_source, numbers, rows;  // numbers: [room, kNumbers]; rows: [lanes, columns] of a tile
  T by_scale[3], by_shift[3];

  BackBlock(const Program& c, const Pairs& p, const PairGrads& grads)
      : Block<T>(c, p), grads(grads), g(c.rows * kVecs<T>), by_drive(c.columns * kVecs<T>), by_weight(c.synapses),
        by_constant(c.constants), weight_by_source(c.synapses), numbers(this->room * kNumbers),
        rows(kLanes * c.columns) {
    for (auto* one : {&by_motor[0], &by_motor[1], &by_motor[2], &by_logit, &by_t, &by_effect})
      one->resize(this->motor[0].size());
  }

  void begin_head(int64_t of_head) {
    head = of_head;
    const T* weight = at<T>(p.weight, this->own() * c.synapses);
    for (int32_t s = 0; s < c.synapses; ++s) weight_by_source[s] = weight[c.out_synapse[s]];
    by_weight.assign(c.synapses, Wide<T>{});
    by_constant.assign(c.constants, Wide<T>{});
    for (int o = 0; o < p.motors; ++o) by_scale[o] = by_shift[o] = 0;
  }

  // Gradients of logits, of t and of effects, from those of the output.
  void back_softmax(const T* out_grad) {
    T *a = lanes(by_logit), *t = lanes(by_t), *e = lanes(by_effect), *w = lanes(this->weight);
    const T *up[kLanes], *v[kLanes];
    for (int64_t tile = 0; tile < this->tiles(); ++tile) {  // of the share of each value
      this->point(tile, out_grad + head * p.value_width, at<T>(p.value, head * p.value_width),
                  p.heads * p.value_width, up, v);
      dot<T>(up, v, p.value_width, a + tile * kLanes);
    }
    std::fill(a + this->used, a + this->room, T(0));
    std::fill(t, t + this->room, T(0));
    std::fill(e, e + this->room, T(0));
    for (int64_t g = 0; g < last - first; ++g) {
      T mean = 0;
      for (int64_t i = begin[g]; i < begin[g + 1]; ++i) {
        if (p.keep) a[i] *= this->kept(i);
        const T time = this->t_of(i), effect = this->effect_of(i);
        if (p.integrate) t[i] = a[i] * w[i] * effect;
        e[i] = a[i] * w[i] * time;
        a[i] *= time * effect;
        mean += w[i] * a[i];
      }
      for (int64_t i = begin[g]; i < begin[g + 1]; ++i) a[i] = w[i] * (a[i] - mean);
    }
  }

  void back_gates() {
    const T* scale = at<T>(p.scale, this->own() * p.motors);
    for (int64_t v = 0; v < this->tiles() * kVecs<T>; ++v) {
      const GateInputs<Wide<T>> in = this->inputs(v);
      const auto back = gates_back(this->options, in, this->gates[v], by_logit[v], by_t[v], by_effect[v]);
      for (int o = 0; o < p.motors; ++o) {
        by_motor[o][v] = back.motor[o] * scale[o];
        by_scale[o] += sum(Wide<T>(back.motor[o] * this->motor[o][v]));
        by_shift[o] += sum(back.motor[o]);
      }
      for (int lane = 0; lane < kLength<Wide<T>>; ++lane) {
        T* held = numbers.data() + (v * kLength<Wide<T>> + lane) * kNumbers;
        held[kByTa] = back.t_a[lane], held[kByTb] = back.t_b[lane], held[kByMatch] = back.match[lane];
      }
    }
    for (int64_t i = 0; i < this->used; ++i) numbers[i * kNumbers + kShare] = this->share(i);
  }

  // Gradients of the circuits: of weights here, of the input drive in `held`, one row of columns a pair.
  void back_circuits(T* held, int64_t stride) {
    for (int64_t tile = 0; tile < this->tiles(); ++tile) {
      this->settle(tile);
      g.assign(c.rows * kVecs<T>, Wide<T>{});
      for (int o = 0; o < p.motors; ++o)
        std::copy_n(by_motor[o].data() + tile * kVecs<T>, kVecs<T>, g.data() + (c.rows - p.motors + o) * kVecs<T>);
      by_drive.assign(c.columns * kVecs<T>, Wide<T>{});
      run_back<T>(c, weight_by_source.data(), this->x.data(), g.data(), by_drive.data(), by_weight.data(),
                  by_constant.data());
      scatter<T>(lanes(by_drive), c.columns, c.columns, rows.data());
      const int64_t stop = std::min<int64_t>(this->used - tile * kLanes, kLanes);
      for (int64_t i = 0; i < stop; ++i)
        std::copy_n(rows.data() + i * c.columns, c.columns, held + (tile * kLanes + i) * stride);
    }
  }

  // Gradients of queries. Those of keys stay in `held`.
  void back(const T* out_grad, T* held) {
    const int64_t stride = c.columns + kNumbers;
    this->attend(nullptr);
    back_softmax(out_grad);
    back_gates();
    back_circuits(held, stride);
    for (int64_t g = 0; g < last - first; ++g)
      for (int64_t i = begin[g]; i < begin[g + 1]; ++i) {
        std::copy_n(numbers.data() + i * kNumbers, kNumbers, held + i * stride + c.columns);
        by_row(first + g, p.queries, key[i], held + i * stride, grads.query, grads.query_gate, grads.asked, p.offered);
      }
  }

  // Add the gradients of one pair to those of its query, or of its key: `mine` of `count` queries or keys, beside `other`.
  void by_row(int64_t mine, int64_t count, int64_t other, const T* pair, void* by_drive, void* by_gate, void* by_match,
              const void* match) {
    const T* number = pair + c.columns;
    add<T>(pair, T(1), c.columns, at<T>(by_drive, (head * count + mine) * c.columns));
    if (by_gate) {
      T* gate = at<T>(by_gate, head * 2 * count + mine);
      gate[0] += number[kByTa], gate[count] += number[kByTb];
    }
    if (by_match)
      add<T>(at<T>(match, (other * p.heads + head) * p.match_width), number[kByMatch], p.match_width,
             at<T>(by_match, (mine * p.heads + head) * p.match_width));
  }

  // Add what is held of a block to the gradients of the keys [from, to).
  void back_keys(const T* out_grad, const T* held, int64_t from, int64_t to) {
    const int64_t stride = c.columns + kNumbers;
    for (int64_t i = 0; i < this->used; ++i) {
      const int64_t k = key[i], r = row[i];
      if (k < from || k >= to) continue;
      const T* pair = held + i * stride;
      by_row(k, p.keys, r, pair, grads.key, grads.key_gate, grads.offered, p.asked);
      add<T>(out_grad + (r * p.heads + head) * p.value_width, pair[c.columns + kShare], p.value_width,
             at<T>(grads.value, (k * p.heads + head) * p.value_width));
    }
  }

  // Add this thread's sums over the pairs of a head.
  void end_head() {
    T *weight = at<T>(grads.weight, this->own() * c.synapses), *constant = at<T>(grads.constant, this->own() * c.constants);
    for (int32_t s = 0; s < c.synapses; ++s) weight[c.out_synapse[s]] += sum(by_weight[s]);
    for (int32_t n = 0; n < c.constants; ++n) constant[n] += sum(by_constant[n]);
    for (int o = 0; o < p.motors; ++o) {
      at<T>(grads.scale, this->own() * p.motors)[o] += by_scale[o];
      at<T>(grads.shift, this->own() * p.motors)[o] += by_shift[o];
    }
  }
};

template <typename T>
void backward(const Program& c, const Pairs& p, const PairGrads& grads, const T* out_grad, int threads) {
  const int64_t blocks = blocks_of<T>(p), room = Block<T>::size(p), each = room * (c.columns + kNumbers);
  const int64_t chunk = std::max<int64_t>(threads, kChunkNumbers / each);  // blocks
  std::vector<T> held(std::min(chunk, blocks) * each);
#pragma omp parallel num_threads(threads)
  {
    BackBlock<T> block(c, p, grads);
    for (int64_t head = 0; head < p.heads; ++head) {
      block.begin_head(head);
      for (int64_t start = 0; start < blocks; start += chunk) {
        const int64_t stop = std::min(start + chunk, blocks);
#pragma omp for schedule(static)
        for (int64_t b = start; b < stop; ++b)
          if (block.open(head, b)) block.back(out_grad, held.data() + (b - start) * each);
        // Each thread adds up the gradients of its own keys, in the order of the pairs: no two write to one place, and
        // the sums do not depend on the number of threads.
#pragma omp for schedule(static)
        for (int part = 0; part < threads; ++part)
          for (int64_t b = start; b < stop; ++b)
            if (block.open(head, b))
              block.back_keys(out_grad, held.data() + (b - start) * each, p.keys * part / threads,
                              p.keys * (part + 1) / threads);
      }
      for (int i = 0; i < threads; ++i) {
#pragma omp barrier
        if (i == thread_number()) block.end_head();
      }
#pragma omp barrier
    }
  }
}

}  // namespace

extern "C" {
int nacre_vector_bytes() { return kWideBytes; }

void nacre_attend_f32(const Program* c, const Pairs* p, const Seen* seen, float* out, int threads) {
  attend_all(*c, *p, seen, out, threads);
}
void nacre_attend_f64(const Program* c, const Pairs* p, const Seen* seen, double* out, int threads) {
  attend_all(*c, *p, seen, out, threads);
}
void nacre_attend_back_f32(const Program* c, const Pairs* p, const PairGrads* g, const float* out_grad, int threads) {
  backward(*c, *p, *g, out_grad, threads);
}
void nacre_attend_back_f64(const Program* c, const Pairs* p, const PairGrads* g, const double* out_grad, int threads) {
  backward(*c, *p, *g, out_grad, threads);
}
}
