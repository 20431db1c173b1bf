"use strict";
// One run: its circuit, its curves, and what becomes of them when something is silenced.
(function (nacre) {
  const { html, format } = nacre;
  const GATES = { phi: "φ, content target", omega: "ω, decay rate", t: "t, internal time", match: "match", effect: "s, effect of the value", logits: "a, logit",
    keys: "effective keys" };

  nacre.View = class {
    // run: number and description of a run; on: { pick(step), problem(error), several }
    constructor(parent, number, about, on) {
      Object.assign(this, { number, about, on, layer: 0, head: 0, sample: 0, lesions: [], asked: 0, row: null });
      this.element = html("section", { class: "view", "aria-label": about.name }, parent);
      const choose = html("div", { class: "choose" }, this.element);
      if (on.several) html("h2", {}, choose, about.name);
      this.layerChooser = this.chooser(choose, "Layer", about.layers.map((layer) => layer.name), (i) => this.choose({ layer: i, head: 0 }));
      this.headChooser = this.chooser(choose, "Head", [], (i) => this.choose({ head: i }));
      this.left = html("div", { class: "panel" }, this.element);
      this.right = html("div", { class: "panel" }, this.element);
    }

    chooser(parent, name, options, pick) {
      const label = html("label", {}, parent, `${name} `), select = html("select", { "data-choose": name.toLowerCase() }, label);
      options.forEach((text, i) => html("option", { value: i }, select, text));
      select.addEventListener("change", () => pick(Number(select.value)));
      return select;
    }

    get seen() { return this.about.layers[this.layer]; }
    get params() { return { run: this.number, sample: this.sample, layer: this.layer, head: this.head }; }
    // Whether the model can run again: a report cannot run it, and some recordings hold none.
    get alive() { return this.about.lesions && !nacre.source.report; }

    get length() { return this.seen.lengths[this.sample]; }

    // Another sample, layer or head: everything is asked for anew.
    async choose(change) {
      const circuit = this.circuit && this.circuit.focus;
      Object.assign(this, change);
      if ("layer" in change || !this.circuit || this.built !== this.layer) this.build();
      this.headChooser.value = this.head;
      this.blocks = new nacre.Blocks(this.params, this.length);
      const params = this.params, asked = ++this.asked;
      const [synapses, spread] = await Promise.all([nacre.source.get("circuit", params), nacre.source.get("spread", params)])
        .catch(this.on.problem) || [];
      if (!synapses || asked !== this.asked) return;
      this.circuit.set(synapses, spread);
      await this.window(this.start || 0, Math.min(this.stop || this.length, this.length));
      await this.show(Math.min(this.step || 0, this.length - 1));
      if (circuit >= 0 && circuit < this.circuit.names.length) this.inspect(circuit);
      this.setLesions(this.lesions.filter((lesion) => lesion.layer === this.layer));
    }

    build() {
      const { about, seen } = this, pick = (time) => this.on.pick(this.stepAt(time));
      this.built = this.layer;
      this.headChooser.replaceChildren();
      for (let i = 0; i < seen.heads; i++) html("option", { value: i }, this.headChooser, i);
      this.left.replaceChildren();
      this.right.replaceChildren();
      const silence = this.alive ? { pick: (column) => this.toggle({ column }), pickGroup: (group) => this.toggle({ group }) } : {};
      this.circuit = new nacre.Circuit(this.left, seen.groups, { hover: (column) => this.inspect(column), ...silence });
      this.circuit.mode = nacre.mode;
      this.lesionList = html("div", { class: "lesions" }, this.left);
      this.inspector = html("div", { class: "inspector", "aria-live": "polite" }, this.left);
      const click = this.alive ? "; click it to silence it" : "";
      html("p", { class: "note" }, this.inspector, `Point at a neuron to see its trace${click}.`);
      this.charts = {};
      if (about.frames) {
        this.picture = html("img", { class: "picture", alt: "What the network sees at this step" }, this.right);
      } else {
        this.charts.input = new nacre.Chart(this.right, { title: "Input", names: about.features, height: 110, onPick: pick,
          apart: true });
      }
      this.arcs = new nacre.Arcs(this.right, { title: "Attention", height: 70, onPick: pick });
      const answer = about.once ? "Read-out of each step" : about.classes ? "Answer (scores)" : "Answer";
      this.charts.output = new nacre.Chart(this.right, { title: answer, names: about.outputs, height: 130, onPick: pick });
      this.answers = html("table", { class: "answers" }, this.right);
      this.gateCharts = seen.gates.map((gate) => new nacre.Chart(this.right, { title: GATES[gate] || gate, names: [`head ${this.head}`],
        height: 66, onPick: pick }));
    }

    stepAt(time) {
      const { step, time: times } = this.curves.gates;
      let best = 0;
      times.forEach((at, i) => { if (Math.abs(at - time) < Math.abs(times[best] - time)) best = i; });
      return step[best];
    }

    async window(start, stop) {
      Object.assign(this, { start, stop });
      const asked = this.asked, curves = await nacre.source.get("curves", { ...this.params, start, stop, points: 700 });
      if (asked !== this.asked || start !== this.start || stop !== this.stop) return;
      this.curves = curves;
      const { time } = curves.gates;
      this.range = [time[0], time[time.length - 1]];
      curves.gates.columns.forEach((column, i) => {
        this.gateCharts[i].names = [`head ${this.head}`];
        this.gateCharts[i].set({ time, columns: [column] }, this.range);
      });
      for (const name in this.charts) if (curves[name]) this.charts[name].set(curves[name], this.range);
      this.arcs.set(this.range);
      if (this.lesions.length) await this.askLesions();
      if (this.inspected >= 0) this.trace(this.inspected);
    }

    // Show a step as soon as it is known; the last one that was asked for wins.
    async show(step) {
      this.step = step;
      let { row, ready } = this.blocks.at(step);
      if (!row) {
        try { await ready; } catch (error) { this.on.problem(error); return; }
        if (this.step !== step) return;
        ({ row } = this.blocks.at(step));
      }
      if (row) this.paint(row);
    }

    paint(row) {
      this.row = row;
      this.circuit.update(row);
      this.arcs.show(row);
      const values = { input: row.input, output: row.output };
      for (const name in this.charts) this.charts[name].setCursor(row.time, values[name]);
      this.gateCharts.forEach((chart, i) => chart.setCursor(row.time, [row.gates[i]]));
      if (this.picture) {
        const address = nacre.source.frame({ run: this.number, sample: this.sample, step: row.inputStep });
        if (this.picture.getAttribute("src") !== address) this.picture.src = address;
      }
      this.tell(row);
      if (this.inspected >= 0) this.inspectState(row);
    }

    // The answer now, or to the whole sample, beside the truth and beside that of the lesioned model.
    tell(row) {
      const { about } = this, given = about.once && row.answer ? row.answer : row.output, changed = this.changed;
      const after = changed && (about.once && changed.answer ? changed.answer : this.changedNow(row));
      if (about.outputs.length > 8 && !about.classes) return;
      const scores = (values) => {
        if (!about.classes) return values;
        const top = Math.max(...values), e = values.map((v) => Math.exp(v - top)), sum = e.reduce((a, b) => a + b, 0);
        return e.map((v) => v / sum);
      };
      const rows = [[about.once ? "answer to all of it" : "answer now", scores(given)]];
      if (after) rows.push(["with the lesion", scores(after)]);
      if (row.truth !== null && row.truth !== undefined) {
        rows.push(["truth", about.classes ? about.outputs.map((_, i) => (row.truth === i ? "●" : "")) : row.truth]);
      }
      const show = (v) => (typeof v === "string" ? v : about.classes && v !== null ? `${(100 * v).toFixed(1)} %` : format(v));
      this.answers.replaceChildren();
      const head = html("tr", {}, this.answers);
      html("th", {}, head, "");
      about.outputs.slice(0, 12).forEach((name) => html("th", {}, head, name));
      for (const [name, values] of rows) {
        const line = html("tr", {}, this.answers);
        html("th", {}, line, name);
        (Array.isArray(values) ? values : [values]).slice(0, 12).forEach((value) => html("td", {}, line, show(value)));
      }
    }

    changedNow(row) {
      const { step, output } = this.changed;
      let i = step.findIndex((at) => at > this.step) - 1;
      if (i < 0) i = step.length - 1;
      return output.length === row.output.length ? output.map((column) => column.mean[i]) : null;
    }

    inspect(column) {
      this.inspected = column;
      this.inspector.replaceChildren();
      const head = html("p", {}, this.inspector);
      html("b", { class: "who" }, head, this.circuit.name(column));
      head.append(`, head ${this.head} `);
      this.stateText = html("span", {}, head);
      if (this.alive) {
        const silence = html("button", { type: "button" }, head, "silence");
        silence.addEventListener("click", () => this.toggle({ column }));
      }
      this.traceChart = new nacre.Chart(this.inspector, { title: "Trace", names: [this.circuit.name(column)], height: 84,
        onPick: (time) => this.on.pick(this.stepAt(time)) });
      this.tuningChart = this.circuit.names[column][0] === "clock" ? this.clockChart(column) : null;
      const list = html("div", { class: "synapses" }, this.inspector);
      for (const { source, target, weight, outgoing } of this.circuit.synapsesOf(column, 6)) {
        const words = `${outgoing ? `→ ${this.circuit.name(target)}` : `← ${this.circuit.name(source)}`} ${format(weight)}`;
        if (!this.alive) { html("span", {}, list, words); continue; }
        const cut = html("button", { type: "button", title: "cut this synapse" }, list, words);
        cut.addEventListener("click", () => this.toggle({ column: source, target }));
      }
      if (this.row) this.inspectState(this.row);
      this.trace(column);
    }

    // The state of a clock neuron over elapsed time, which is known: a cosine or a sine.
    clockChart(column) {
      const { clock } = this.seen, index = this.circuit.names[column][1], unit = this.seen.timed ? this.about.timeUnit : "steps";
      const wave = index < clock.length ? Math.cos : Math.sin, scale = clock[index % clock.length];
      html("p", { class: "note" }, this.inspector, `${index < clock.length ? "Cosine" : "Sine"} of the time from key to query, ` +
        `one turn in ${format(2 * Math.PI * scale)} ${unit}`.trim());
      const chart = new nacre.Chart(this.inspector, { title: "State over elapsed time", names: [this.circuit.name(column)], height: 84 });
      return { chart, state: (elapsed) => wave(elapsed / scale) };
    }

    // From the latest to the earliest key of this step.
    drawClock(row) {
      const { chart, state } = this.tuningChart, there = row.index.map((_, i) => i).filter((i) => row.weights[i] !== null);
      const elapsed = there.map((i) => (this.seen.timed ? row.time - row.keyTime[i] : this.step - row.index[i]));
      const low = Math.min(0, ...elapsed), high = Math.max(0, ...elapsed), size = high - low || 1;
      const time = Array.from({ length: 241 }, (_, i) => low + size * i / 240);
      chart.set({ time, columns: [{ mean: time.map(state) }] }, [low, low + size]);
      chart.setCursor(0);  // keys of this very moment
    }

    inspectState(row) {
      if (this.tuningChart) this.drawClock(row);
      if (this.stateText) this.stateText.textContent = `is ${format(row.states[this.inspected])} now `;
      if (this.traceChart && this.traceChart.data) this.traceChart.setCursor(row.time, [row.states[this.inspected]]);
    }

    async trace(column) {
      const chart = this.traceChart, { start, stop } = this;
      try {
        const data = await nacre.source.get("neuron", { ...this.params, column, start, stop, points: 400 });
        if (this.traceChart !== chart) return;
        chart.set(data, this.range);
        if (this.row) this.inspectState(this.row);
      } catch (error) { this.on.problem(error); }
    }

    // Silence, or let speak again: a neuron { column }, a synapse { column, target } or a group { group }.
    toggle(what) {
      const neuron = (column) => { const [group, index] = this.circuit.names[column]; return { group, index }; };
      const lesion = what.group ? { group: what.group, head: this.head } : { ...neuron(what.column), head: this.head };
      if (what.target !== undefined) lesion.target = neuron(what.target);
      const text = JSON.stringify(lesion), there = this.lesions.findIndex((other) => other.text === text);
      const kept = this.lesions.filter((_, i) => i !== there);
      if (there < 0) {
        const name = what.group ? `all ${what.group}` : this.circuit.name(what.column);
        const words = what.target === undefined ? name : `${name} → ${this.circuit.name(what.target)}`;
        kept.push({ text, lesion, layer: this.layer, words: `${words}, head ${this.head}`, what });
      }
      this.setLesions(kept);
    }

    async setLesions(lesions) {
      this.lesions = lesions;
      this.lesionList.replaceChildren();
      if (lesions.length) this.lesionList.append("silent:");
      for (const one of lesions) {
        const button = html("button", { type: "button", title: "let it speak again" }, this.lesionList, `${one.words} ✕`);
        button.addEventListener("click", () => this.setLesions(this.lesions.filter((other) => other !== one)));
      }
      const silent = lesions.filter(({ lesion }) => lesion.head === this.head && !lesion.target).flatMap(({ what }) =>
        what.group ? this.circuit.names.flatMap(([group], i) => (group === what.group ? [i] : [])) : [what.column]);
      this.circuit.setSilent(silent);
      await this.askLesions();
    }

    async askLesions() {
      const lesions = this.lesions, params = { ...this.params, start: this.start, stop: this.stop, points: 700 };
      this.changed = null;
      if (lesions.length) {
        this.busy = html("span", { class: "note", role: "status" }, this.lesionList, "the model runs again …");
        try { this.changed = await nacre.source.lesion(params, lesions.map(({ lesion }) => lesion)); }
        catch (error) { this.on.problem(error); }
        if (this.lesions !== lesions) return;
        this.busy.remove();
      }
      const { changed } = this;
      this.overlay(this.charts.output, changed, changed && changed.output.slice(0, this.curves.output.columns.length));
      this.gateCharts.forEach((chart, i) => this.overlay(chart, changed, changed && [changed.gates[i]]));
      if (this.row) this.tell(this.row);
    }

    // Both curves have about as many points; those of the lesion are brought onto the steps of the other.
    overlay(chart, changed, columns) {
      if (!changed || !chart.data) { chart.setOverlay(null); return; }
      const steps = chart === this.charts.output ? this.curves.output.step : this.curves.gates.step;
      let j = 0;
      const place = steps.map((step) => { while (j + 1 < changed.step.length && changed.step[j + 1] <= step) j++; return j; });
      chart.setOverlay(columns.map((column) => ({ mean: place.map((i) => column.mean[i]) })));
    }

    redraw() {
      this.circuit.mode = nacre.mode;
      this.circuit.draw();
      for (const chart of [...Object.values(this.charts), ...this.gateCharts, this.arcs]) chart.draw();
      if (this.traceChart && this.traceChart.data) this.traceChart.draw();
      if (this.row) this.paint(this.row);
    }
  };
})(window.nacre);
