"use strict";
// The circuit: sensory (and clock), inter, command and motor neurons from left to right, synapses coloured by their sign.
(function (nacre) {
  const { svg } = nacre;
  const HEIGHT = 520, TOP = 42, BOTTOM = 12, TALLEST = 30;  // neurons of one column of a group
  const DRAWN = 450;  // strongest synapses that are always there

  nacre.Circuit = class {
    // groups: [[name, neurons], ...]; on: { hover(column or null), pick(column), pickGroup(name) }
    constructor(parent, groups, on) {
      Object.assign(this, { groups, on, silent: new Set(), focus: -1, row: null, spread: null, mode: "change" });
      this.element = nacre.html("div", { class: "panel circuit" }, parent);
      this.note = nacre.html("p", { class: "title" }, this.element);
      this.svg = svg("svg", { height: HEIGHT, tabindex: 0, role: "group",
        "aria-label": `Circuit. Arrows go from neuron to neuron${on.pick ? ", Enter silences one" : ""}.` }, this.element);
      this.names = groups.flatMap(([group, size]) => Array.from({ length: size }, (_, i) => [group, i]));
      this.svg.addEventListener("keydown", (event) => this.key(event));
    }

    name(column) {
      const [group, index] = this.names[column];
      const motor = group === "motor" ? [" (φ)", " (ω)"][index] || "" : "";
      return `${group} ${index}${motor}`;
    }

    set(synapses, spread) {
      Object.assign(this, { synapses, spread });
      this.heard = new Map();
      synapses.source.forEach((from, i) => {
        for (const column of [from, synapses.target[i]]) {
          if (!this.heard.has(column)) this.heard.set(column, []);
          this.heard.get(column).push(i);
        }
      });
      this.draw();
    }

    // Where neurons are: large groups in several columns side by side, the sensory groups one below the other.
    layout() {
      this.width = this.element.clientWidth || 500;
      const at = [Math.max(0.08 * this.width, 30), 0.4 * this.width, 0.72 * this.width, Math.min(0.94 * this.width, this.width - 36)];
      this.place = [];
      this.titles = [];
      let first = {}, count = 0;
      for (const [group, size] of this.groups) { first[group] = count; count += size; }
      const sizes = Object.fromEntries(this.groups);
      const columns = [["query", "key", "clock", "value"], ["inter"], ["command"], ["motor"]]
        .map((names) => names.filter((group) => sizes[group]));
      columns.forEach((names, c) => {
        const each = (HEIGHT - TOP - BOTTOM) / names.length;
        names.forEach((group, g) => {
          const size = sizes[group], top = TOP + g * each + (g ? 18 : 0), room = each - (g ? 18 : 0) - 6;
          const tall = names.length > 1 ? Math.min(size, names.length > 3 ? 8 : TALLEST / 2) : TALLEST;
          const wide = Math.ceil(size / tall) || 1, deep = Math.ceil(size / wide) || 1;
          const gap = Math.min(room / deep, 26), across = Math.min(15, (0.2 * this.width) / wide);
          const radius = Math.max(2.2, Math.min(gap * 0.42, across * 0.46, 8));
          const start = top + (room - gap * deep) / 2;
          for (let i = 0; i < size; i++) {
            const column = Math.floor(i / deep), row = i % deep;
            this.place[first[group] + i] = { x: at[c] + (column - (wide - 1) / 2) * across,
              y: start + gap * (row + 0.5 + (wide > 1 ? (column % 2) * 0.5 - 0.25 : 0)), r: group === "motor" ? 9 : radius };
          }
          this.titles.push({ group, size, x: at[c], y: names.length > 1 ? top - 8 : 30 });
        });
      });
    }

    draw() {
      if (!this.synapses) return;
      const colours = nacre.colours();
      this.layout();
      this.svg.replaceChildren();
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
      this.lines = svg("g", {}, this.svg);
      this.near = svg("g", {}, this.svg);
      const { weight } = this.synapses, strongest = Math.abs(weight[0]) || 1;
      this.drawn = Array.from({ length: Math.min(DRAWN, weight.length) }, (_, i) => {
        const strength = Math.abs(weight[i]) / strongest;
        return { i, strength, line: this.line(i, this.lines, 0.5 + 1.2 * strength) };
      });
      this.dots = this.place.map(({ x, y, r }, column) => {
        const dot = svg("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: r.toFixed(1), stroke: colours.faint, "stroke-width": 0.6,
          class: "neuron", "data-column": column, "data-name": this.name(column) }, this.svg);
        dot.addEventListener("pointerenter", () => this.show(column));
        if (this.on.pick) {
          dot.style.cursor = "pointer";
          dot.addEventListener("click", () => this.on.pick(column));
        }
        return dot;
      });
      const { ink, faint } = colours, font = { "font-family": "system-ui, sans-serif", "text-anchor": "middle" };
      for (const { group, size, x, y } of this.titles) {
        const title = svg("text", { ...font, x, y, fill: ink, "font-size": 12, class: "group", "data-group": group }, this.svg);
        title.textContent = `${group} ${size}`;
        if (!this.on.pickGroup) continue;
        title.style.cursor = "pointer";
        svg("title", {}, title).textContent = `silence all ${size} ${group} neurons of this head`;
        title.addEventListener("click", () => this.on.pickGroup(group));
      }
      svg("text", { ...font, x: Math.max(0.08 * this.width, 30), y: 14, fill: faint, "font-size": 12 }, this.svg).textContent = "sensory";
      const motor = this.names.findIndex(([group]) => group === "motor");
      ["φ", "ω"].forEach((letter, i) => {
        const spot = this.place[motor + i];
        if (spot) svg("text", { ...font, x: spot.x + 17, y: spot.y + 4, fill: ink, "font-size": 13 }, this.svg).textContent = letter;
      });
      this.marks = svg("g", {}, this.svg);
      this.describe();
      this.mark();
      if (this.row) this.update(this.row);
      if (this.focus >= 0) this.highlight();
    }

    line(i, parent, width) {
      const { source, target, weight } = this.synapses, a = this.place[source[i]], b = this.place[target[i]];
      const colours = nacre.colours(), stroke = weight[i] > 0 ? colours.high : colours.low;
      if (source[i] === target[i])
        return svg("circle", { cx: a.x + a.r, cy: a.y, r: a.r, fill: "none", stroke, "stroke-width": width }, parent);
      const bend = Math.abs(a.x - b.x) < 60 ? 28 : 0;  // within a group a straight line would hide behind neurons
      const middle = `${((a.x + b.x) / 2 + bend).toFixed(1)},${((a.y + b.y) / 2).toFixed(1)}`;
      return svg("path", { d: `M${a.x.toFixed(1)},${a.y.toFixed(1)} Q${middle} ${b.x.toFixed(1)},${b.y.toFixed(1)}`,
        fill: "none", stroke, "stroke-width": width.toFixed(2), "stroke-opacity": 0.25 }, parent);
    }

    describe() {
      const colours = nacre.colours(), all = this.synapses.weight.length;
      this.note.replaceChildren(nacre.html("b", {}, null, "Circuit"));
      for (const [word, colour] of [["excites", colours.high], ["inhibits", colours.low]]) {
        const key = nacre.html("span", { class: "key" }, this.note);
        nacre.html("i", {}, key).style.background = colour;
        key.append(word);
      }
      const shown = this.drawn.length < all ? `${this.drawn.length} strongest of ${all} synapses` : `${all} synapses`;
      nacre.html("span", { class: "key" }, this.note, this.synapses.trained ? shown : `${shown}, signs of the wiring`);
    }

    // From -1 to 1: the state itself, or how far it is from its mean, by its largest deviation in this sample.
    level(states, column) {
      if (this.mode === "state" || !this.spread) return states[column];
      return (states[column] - this.spread.mean[column]) / (this.spread.most[column] || 1);
    }

    update(row) {
      this.row = row;
      if (!this.dots) return;
      const colours = nacre.colours();
      this.dots.forEach((dot, column) => {
        const silent = this.silent.has(column);
        dot.setAttribute("fill", silent ? colours.ground : nacre.diverging(this.level(row.states, column), colours));
      });
      for (const { i, strength, line } of this.drawn) {
        const from = this.synapses.source[i];
        const loud = this.silent.has(from) ? 0 : Math.min(1, Math.abs(this.level(row.states, from)));
        line.setAttribute("stroke-opacity", (0.06 + 0.75 * loud * (0.25 + 0.75 * strength)).toFixed(3));
      }
    }

    setSilent(columns) {
      this.silent = new Set(columns);
      if (this.marks) this.mark();
      if (this.row) this.update(this.row);
    }

    mark() {
      this.marks.replaceChildren();
      const { ink } = nacre.colours();
      for (const column of this.silent) {
        const { x, y, r } = this.place[column], d = r * 0.9;
        svg("path", { d: `M${x - d},${y - d} L${x + d},${y + d} M${x + d},${y - d} L${x - d},${y + d}`, stroke: ink,
          "stroke-width": 1.4, class: "silent", "pointer-events": "none" }, this.marks);
      }
    }

    show(column) {
      this.focus = column;
      this.highlight();
      this.on.hover(column);
    }

    highlight() {
      this.near.replaceChildren();
      for (const i of (this.heard.get(this.focus) || []).slice(0, 60)) {
        const line = this.line(i, this.near, 1.6);
        line.setAttribute("stroke-opacity", 0.85);
      }
      const { x, y, r } = this.place[this.focus];
      svg("circle", { cx: x, cy: y, r: r + 3, fill: "none", stroke: nacre.colours().ink, "stroke-width": 1.5 }, this.near);
    }

    key(event) {
      const move = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: "before", ArrowRight: "after" }[event.key];
      if (event.key === "Enter" && this.focus >= 0 && this.on.pick) this.on.pick(this.focus);
      else if (move === undefined) return;
      else if (this.focus < 0) this.show(0);
      else if (typeof move === "number") this.show(Math.max(0, Math.min(this.names.length - 1, this.focus + move)));
      else {
        const here = this.groups.findIndex(([group]) => group === this.names[this.focus][0]);
        const next = this.groups[here + (move === "after" ? 1 : -1)];
        if (next) this.show(this.names.findIndex(([group]) => group === next[0]));
      }
      event.preventDefault();
      event.stopPropagation();
    }

    // The synapses of a neuron, strongest first: [{ other, weight, outgoing }]
    synapsesOf(column, most) {
      const { source, target, weight } = this.synapses;
      return (this.heard.get(column) || []).slice(0, most).map((i) => ({ weight: weight[i],
        outgoing: source[i] === column, source: source[i], target: target[i] }));
    }
  };
})(window.nacre);
