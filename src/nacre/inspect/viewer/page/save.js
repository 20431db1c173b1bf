"use strict";
// Saving: the drawings of this moment as one SVG or PNG file, and the numbers behind them as CSV.
(function (nacre) {
  const { svg } = nacre;

  function download(name, type, data) {
    const address = URL.createObjectURL(new Blob([data], { type })), link = nacre.html("a", { href: address, download: name });
    document.body.appendChild(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  const dataOf = async (address) => {
    const blob = await (await fetch(address)).blob();
    return new Promise((done) => {
      const reader = new FileReader();
      reader.onload = () => done(reader.result);
      reader.readAsDataURL(blob);
    });
  };

  // All drawings where they are on the page, in one.
  async function compose() {
    const main = document.getElementById("views"), frame = main.getBoundingClientRect(), colours = nacre.colours();
    const width = Math.ceil(frame.width), height = Math.ceil(frame.height) + 24;
    const whole = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` });
    svg("rect", { width, height, fill: colours.ground }, whole);
    const text = (words, x, y, size) => {
      svg("text", { x, y, fill: colours.ink, "font-size": size, "font-family": "system-ui, sans-serif" }, whole).textContent = words;
    };
    text(`${document.getElementById("title").textContent}, ${document.getElementById("now").textContent}`, 4, 16, 13);
    for (const old of main.querySelectorAll("svg, img.picture, .title, h2, table.answers tr, .lesions button")) {
      const box = old.getBoundingClientRect(), x = box.left - frame.left, y = box.top - frame.top + 24;
      if (!box.width) continue;
      if (old.tagName === "svg") {
        const copy = old.cloneNode(true);
        for (const [key, value] of Object.entries({ x, y, width: box.width, height: box.height })) copy.setAttribute(key, value);
        copy.querySelectorAll("[style]").forEach((part) => part.removeAttribute("style"));
        whole.appendChild(copy);
      } else if (old.tagName === "IMG") {
        svg("image", { x, y, width: box.width, height: box.height, href: await dataOf(old.src) }, whole);
      } else {
        const parts = old.tagName === "H2" || old.tagName === "BUTTON" ? [old] : old.children;
        for (const part of parts) {
          const at = part.getBoundingClientRect(), mark = part.querySelector("i");
          if (mark) {
            const spot = mark.getBoundingClientRect();
            svg("rect", { x: spot.left - frame.left, y: spot.top - frame.top + 24, width: spot.width, height: spot.height,
              fill: mark.style.background }, whole);
          }
          // The word before the first lesion stands to the left of its button.
          const first = old.tagName === "BUTTON" && !old.previousElementSibling, words = part.textContent.replace(" ✕", "");
          text(first ? `silent: ${words}` : words, at.left - frame.left + (mark ? 18 : first ? -42 : 0), at.bottom - frame.top + 19, 12);
        }
      }
    }
    return { text: new XMLSerializer().serializeToString(whole), width, height };
  }

  const name = (suffix) => `nacre-step-${document.getElementById("step").value}.${suffix}`;

  nacre.saveSvg = async () => download(name("svg"), "image/svg+xml", (await compose()).text);

  nacre.savePng = async function () {
    const { text, width, height } = await compose(), image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = nacre.html("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    canvas.toBlob((blob) => download(name("png"), "image/png", blob));
  };

  // Long form, one number a line: every chart of the view, and every neuron at the current step.
  nacre.saveCsv = function (views) {
    const lines = [["run", "sample", "layer", "head", "what", "name", "step", "time", "value", "with_lesion"]];
    for (const view of views) {
      const { about, seen, curves, row } = view;
      const where = [about.name, about.samples[view.sample], seen.name, view.head];
      const put = (what, names, curve, overlay) => curve && curve.columns.forEach((column, i) => curve.step.forEach((step, j) =>
        lines.push([...where, what, names[i], step, curve.time[j], column.mean[j], overlay && overlay[i] ? overlay[i].mean[j] : ""])));
      put("input", about.features, curves.input);
      put("output", about.outputs, curves.output, view.charts.output.overlay);
      put("gate", seen.gates, curves.gates, view.gateCharts.map((chart) => chart.overlay && chart.overlay[0]));
      row.states.forEach((state, i) => lines.push([...where, "state", view.circuit.name(i), view.step, row.time, state, ""]));
      row.weights.forEach((weight, i) => weight !== null && lines.push([...where, "attention", `step ${row.index[i]}`, view.step, row.time, weight, ""]));
    }
    const cell = (value) => { const text = String(value ?? ""); return /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text; };
    download(name("csv"), "text/csv", lines.map((line) => line.map(cell).join(",")).join("\n") + "\n");
  };
})(window.nacre);
