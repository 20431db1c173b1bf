"use strict";
// Where the data comes from: the server, or, in a report, the page itself.
(function (nacre) {
  const STEPS = 32, KEPT = 64;  // steps of a block, blocks that are kept

  async function ask(address, options) {
    let response;
    try {
      response = await fetch(address, options);
    } catch (error) {
      throw new Error("the server does not answer; is `nacre view` still running?");
    }
    const data = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(data.error || `the server answers ${response.status}`);
    return data;
  }

  const server = {
    report: false,
    about: () => ask("api/about"),
    get: (name, params) => ask(`api/${name}?${new URLSearchParams(params)}`),
    lesion: (params, lesions) => ask(`api/lesion?${new URLSearchParams(params)}`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(lesions) }),
    frame: (params) => `api/frame?${new URLSearchParams(params)}`,
  };

  function bytes(text) {
    const raw = atob(text), made = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) made[i] = raw.charCodeAt(i);
    return made;
  }

  // A report holds every shown step of one sample; states are bytes between the smallest and largest of a neuron.
  function embedded(data) {
    const unpacked = {};
    function head(params) {
      const key = `${params.run || 0}/${params.layer || 0}/${params.head || 0}`;
      if (!unpacked[key]) {
        const found = data.heads[key], raw = bytes(found.states), width = found.low.length;
        unpacked[key] = { ...found, states: Array.from({ length: raw.length / width }, (_, step) =>
          found.low.map((low, i) => low + (found.high[i] - low) * raw[step * width + i] / 255)) };
      }
      return unpacked[key];
    }
    function cut(curve, start, stop) {
      const kept = curve.step.map((step, i) => i).filter((i) => curve.step[i] >= start && curve.step[i] < stop);
      const some = (values) => values && kept.map((i) => values[i]);
      return { step: some(curve.step), time: some(curve.time), columns: curve.columns.map((column) => ({
        low: some(column.low), high: some(column.high), mean: some(column.mean) })) };
    }
    const reads = {
      circuit: (p) => head(p).circuit,
      spread: (p) => head(p).spread,
      curves(p) {
        const found = head(p).curves, made = { start: p.start, stop: p.stop };
        for (const name of ["gates", "input", "output"]) if (found[name]) made[name] = cut(found[name], p.start, p.stop);
        return made;
      },
      neuron(p) {
        const found = head(p), mean = found.states.map((row) => row[p.column]);
        return cut({ step: mean.map((_, i) => i), time: found.steps.time, columns: [{ mean }] }, p.start, p.stop);
      },
      steps(p) {
        const found = head(p), some = { start: p.start, answer: found.steps.answer };
        for (const name in found.steps)
          if (name !== "answer" && name !== "start") some[name] = found.steps[name] && found.steps[name].slice(p.start, p.stop);
        some.states = found.states.slice(p.start, p.stop);
        return some;
      },
    };
    return {
      report: true,
      about: async () => data.about,
      get: async (name, params) => reads[name](params),
      lesion: async () => { throw new Error("a report cannot run the model; open the run with `nacre view` for lesions"); },
      frame: (params) => data.frames[params.run || 0][params.step],
    };
  }

  // Blocks of steps, asked for once and kept while they are near.
  nacre.Blocks = class {
    constructor(params, length) {
      Object.assign(this, { params, length, kept: new Map() });
    }

    load(number) {
      if (this.kept.has(number)) {
        const found = this.kept.get(number);
        this.kept.delete(number);
        this.kept.set(number, found);
        return found;
      }
      const start = number * STEPS, stop = Math.min(start + STEPS, this.length);
      const entry = { data: null };
      entry.ready = nacre.source.get("steps", { ...this.params, start, stop }).then((data) => {
        entry.data = data;
        return data;
      });
      entry.ready.catch(() => this.kept.delete(number));  // ask again next time
      this.kept.set(number, entry);
      if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
      return entry;
    }

    // What is known of a step now, and a promise where it is not known yet.
    at(step) {
      const number = Math.floor(step / STEPS), entry = this.load(number);
      if (entry.data && (number + 1) * STEPS < this.length) this.load(number + 1);  // for playing on
      if (!entry.data) return { row: null, ready: entry.ready };
      const i = step - entry.data.start, row = {};
      for (const name in entry.data) {
        const values = entry.data[name];
        row[name] = Array.isArray(values) && name !== "answer" ? values[i] : values;
      }
      return { row, ready: entry.ready };
    }
  };

  const held = document.getElementById("report");
  nacre.source = held ? embedded(JSON.parse(held.textContent)) : server;
})(window.nacre);
