"use strict";
// Curves over time: the band of what lies between two drawn points, a line through their means, a cursor.
(function (nacre) {
  const { svg, format } = nacre;
  const LEFT = 46, RIGHT = 8, TOP = 6, BOTTOM = 16;

  const MUCH = 10;  // times a line's reach that the reach of all may be, if they are to share a scale

  // The smallest and the largest number of some lines, never the same.
  function reachOf(columns) {
    let low = Infinity, high = -Infinity;
    for (const c of columns)
      for (const value of [...(c.low || c.mean), ...(c.high || [])])
        if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
    if (low === Infinity) return [0, 1];
    return high - low < 1e-9 * Math.max(1, Math.abs(high)) ? [low - 0.5, high + 0.5] : [low, high];
  }

  nacre.Chart = class {
    // title: what it shows; names: of its lines; height: of its drawing; onPick: called with the time that was clicked;
    // apart: whether lines of very different sizes, such as inputs in units of their own, have a scale each.
    constructor(parent, { title, names, height, onPick, apart }) {
      Object.assign(this, { names, height, apart, data: null, overlay: null, cursor: null, marks: null });
      this.element = nacre.html("div", { class: "panel chart" }, parent);
      this.head = nacre.html("p", { class: "title" }, this.element);
      this.title = title;
      this.svg = svg("svg", { height, role: "img", "aria-label": title }, this.element);
      this.svg.addEventListener("pointerdown", (event) => {
        const box = this.svg.getBoundingClientRect();
        if (this.data && onPick) onPick(this.timeAt(event.clientX - box.left));
      });
    }

    set(data, range) {
      Object.assign(this, { data, range });
      this.draw();
    }

    setOverlay(columns) {
      this.overlay = columns;
      this.draw();
    }

    timeAt(x) {
      const [from, to] = this.span;
      return from + ((x - LEFT) / Math.max(1, this.width - LEFT - RIGHT)) * (to - from);
    }

    x(time) {
      const [from, to] = this.span;
      return LEFT + ((time - from) / (to - from || 1)) * (this.width - LEFT - RIGHT);
    }

    y(value, i) {
      const [low, high] = this.reaches && i !== undefined ? this.reaches[i] : this.reach;
      return this.height - BOTTOM - ((value - low) / (high - low || 1)) * (this.height - TOP - BOTTOM);
    }

    legend(values, changed) {
      const colours = nacre.colours();
      this.head.replaceChildren(nacre.html("b", {}, null, this.reaches ? `${this.title}, a scale each` : this.title));
      this.names.slice(0, this.data ? this.data.columns.length : 0).forEach((name, i) => {
        const key = nacre.html("span", { class: "key" }, this.head);
        nacre.html("i", {}, key).style.background = colours.lines[i % colours.lines.length];
        const own = this.reaches && this.reaches[i] ? ` (${format(this.reaches[i][0], 3)} to ${format(this.reaches[i][1], 3)})` : "";
        key.append((values ? `${name} ${format(values[i])}` : name) + own);
      });
      if (changed) nacre.html("span", { class: "key changed" }, this.head, "dashed: with the lesion");
    }

    draw() {
      this.width = this.element.clientWidth || 300;
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
      this.svg.replaceChildren();
      if (!this.data || !this.data.time.length) return;
      const { time, columns } = this.data, shown = this.overlay ? [...columns, ...this.overlay] : columns;
      const [low, high] = this.reach = reachOf(shown), own = columns.map((column) => reachOf([column]));
      this.reaches = this.apart && own.some(([a, b]) => b - a < (high - low) / MUCH) ? own : null;
      this.span = this.range || [time[0], time[time.length - 1]];
      this.axes(low, high);
      columns.forEach((column, i) => this.curve(column, i, ""));
      (this.overlay || []).forEach((column, i) => this.curve(column, i, "5 3"));
      this.line = svg("line", { y1: TOP - 4, y2: this.height - BOTTOM, stroke: nacre.colours().ink, "stroke-width": 1,
        class: "cursor" }, this.svg);
      this.legend(this.values, this.overlay);
      this.setCursor(this.cursor, this.values);
    }

    axes(low, high) {
      const colours = nacre.colours(), text = { fill: colours.faint, "font-size": 11, "font-family": "system-ui, sans-serif" };
      for (const value of [low, high]) {
        const y = this.y(value);
        svg("line", { x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y, stroke: colours.line }, this.svg);
        svg("text", { ...text, x: LEFT - 4, y: y + 4, "text-anchor": "end" }, this.svg)
          .textContent = this.reaches ? (value === low ? "least" : "most") : format(value, 3);
      }
      this.ends(text);
    }

    // Times at both ends of the axis.
    ends(text) {
      this.span.forEach((at, i) => {
        svg("text", { ...text, x: this.x(at), y: this.height - 3, "text-anchor": i ? "end" : "start" }, this.svg)
          .textContent = format(at);
      });
    }

    curve(column, i, dashes) {
      const colours = nacre.colours(), { time } = this.data, other = dashes && this.data.columns.length === 1 ? 1 : 0;
      const colour = colours.lines[(i + other) % colours.lines.length];
      const point = (j, values) => `${this.x(time[j]).toFixed(1)},${this.y(values[j], i).toFixed(1)}`;
      const there = time.map((_, j) => j).filter((j) => j < column.mean.length && column.mean[j] !== null);
      if (column.low && !dashes) {
        const edge = [...there.map((j) => point(j, column.high)), ...there.map((j) => point(j, column.low)).reverse()];
        svg("polygon", { points: edge.join(" "), fill: colour, "fill-opacity": 0.25 }, this.svg);
      }
      svg("polyline", { points: there.map((j) => point(j, column.mean)).join(" "), fill: "none", stroke: colour,
        "stroke-width": dashes ? 1.8 : 1.4, "stroke-dasharray": dashes, class: dashes ? "lesioned" : "intact" }, this.svg);
      if (there.length <= 220 && !dashes)  // few enough to show when they were
        for (const j of there) svg("circle", { cx: this.x(time[j]).toFixed(1), cy: this.y(column.mean[j], i).toFixed(1),
          r: 1.3, fill: colour }, this.svg);
    }

    setCursor(time, values) {
      this.cursor = time;
      this.values = values;
      if (!this.line || time === null || time === undefined) return;
      const x = this.x(time);
      this.line.setAttribute("x1", x);
      this.line.setAttribute("x2", x);
      if (values) this.legend(values, this.overlay);
    }
  };

  // Arcs from the current step to the keys that it attends to, over the time axis of the charts; over an axis of their
  // own where they would be too near to each other to be seen.
  nacre.Arcs = class extends nacre.Chart {
    constructor(parent, options) {
      super(parent, { names: [], ...options });
    }

    set(range) {
      this.width = this.element.clientWidth || 300;
      this.shared = range;
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
      if (this.row) this.show(this.row);
    }

    draw() { if (this.shared) this.set(this.shared); }

    choose(times) {
      const low = Math.min(...times), high = Math.max(...times), reach = high - low, [from, to] = this.shared;
      const own = reach > 0 && (reach < 0.08 * (to - from) || low < from || high > to);
      this.span = own ? [low - 0.1 * reach, high + 0.1 * reach] : this.shared;
      return own;
    }

    show(row) {
      this.row = row;
      const there = row.weights.map((weight, i) => i).filter((i) => row.weights[i] !== null);
      const own = this.choose([row.time, ...there.map((i) => row.keyTime[i])]);
      const colours = nacre.colours(), ground = this.height - BOTTOM, now = this.x(row.time);
      const text = { fill: colours.faint, "font-size": 11, "font-family": "system-ui, sans-serif" };
      this.svg.replaceChildren();
      svg("line", { x1: LEFT, x2: this.width - RIGHT, y1: ground, y2: ground, stroke: colours.line }, this.svg);
      for (const i of there) {
        const to = this.x(row.keyTime[i]), top = ground - Math.min(ground - 6, 8 + Math.abs(now - to) / 3);
        const arc = svg("path", { d: `M${now},${ground} C${now},${top} ${to},${top} ${to},${ground}`, fill: "none",
          stroke: colours.lines[0], "stroke-width": (0.6 + 5 * row.weights[i]).toFixed(2), "stroke-opacity": 0.75,
          class: "arc" }, this.svg);
        svg("title", {}, arc).textContent = `step ${row.index[i]}: ${(100 * row.weights[i]).toFixed(1)} %`;
        svg("circle", { cx: to, cy: ground, r: 2.5, fill: colours.lines[0] }, this.svg);
      }
      svg("circle", { cx: now, cy: ground, r: 4, fill: colours.ink }, this.svg);
      if (own) this.ends(text);
      const best = there.reduce((a, b) => (a === null || row.weights[b] > row.weights[a] ? b : a), null);
      this.head.replaceChildren(nacre.html("b", {}, null, this.title));
      const words = best === null ? "no key" :
        `${there.length} keys, most on step ${row.index[best]} (${(100 * row.weights[best]).toFixed(1)} %)`;
      nacre.html("span", { class: "key" }, this.head, own ? `${words}; own time axis` : words);
    }
  };
})(window.nacre);
