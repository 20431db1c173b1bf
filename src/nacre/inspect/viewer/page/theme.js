"use strict";
// Colours. Okabe and Ito's, which can be told apart whatever the eye; they are attributes of the drawings and not
// styles, so that a saved figure looks like the page.
window.nacre = window.nacre || {};
(function (nacre) {
  const LINES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d00", "#6a6a6a"];
  const LIGHT = { ground: "#ffffff", ink: "#1d2126", faint: "#5c6670", line: "#d5dade", still: "#e3e6e9",
    low: "#d55e00", high: "#0072b2", lines: LINES };
  const DARK = { ground: "#14171a", ink: "#e8ebed", faint: "#9aa5ae", line: "#343c43", still: "#3a4249",
    low: "#f08a3c", high: "#56b4e9", lines: ["#56b4e9", "#f08a3c", "#2fc79b", "#e29bc4", "#f0c040", "#7cc7f2", "#c9ad4a", "#b0b0b0"] };
  const root = document.documentElement;

  function stored() {
    try { return localStorage.getItem("nacre-theme"); } catch (error) { return null; }  // a file may have no storage
  }

  nacre.colours = () => (root.dataset.theme === "dark" ? DARK : LIGHT);

  nacre.setTheme = function (name) {
    root.dataset.theme = name;
    try { localStorage.setItem("nacre-theme", name); } catch (error) { /* it is asked again next time */ }
  };

  nacre.toggleTheme = () => nacre.setTheme(root.dataset.theme === "dark" ? "light" : "dark");

  const dark = window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = stored() || (dark ? "dark" : "light");

  const parse = (colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));

  // From low over still to high, for a number from -1 to 1.
  nacre.diverging = function (value, colours) {
    const x = Math.max(-1, Math.min(1, value || 0));
    const from = parse(colours.still), to = parse(x < 0 ? colours.low : colours.high);
    const mix = from.map((c, i) => Math.round(c + (to[i] - c) * Math.abs(x)));
    return `rgb(${mix.join(",")})`;
  };

  nacre.svg = function (name, attributes, parent) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (parent) parent.appendChild(element);
    return element;
  };

  nacre.html = function (name, attributes, parent, text) {
    const element = document.createElement(name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  };

  nacre.format = function (value, digits = 4) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 0.001 || size >= 100000)) return value.toExponential(digits - 2);
    return String(+value.toPrecision(digits));
  };
})(window.nacre);
