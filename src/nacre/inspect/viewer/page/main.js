"use strict";
// The page: one slider moves all runs.
(function (nacre) {
  const find = (id) => document.getElementById(id);
  const slider = find("step"), play = find("play"), problem = find("problem");
  nacre.mode = "change";
  // When the first frame was painted, and how long each move of the slider took until it was painted.
  nacre.measured = { first: null, moves: [] };
  let views = [], step = 0, playing = false, zoom = 1, moving = null;

  function report(error) {
    problem.textContent = error.message;
    problem.hidden = false;
    clearTimeout(report.timer);
    report.timer = setTimeout(() => { problem.hidden = true; }, 8000);
  }

  const last = () => views[0].length - 1;

  function tell() {
    const time = views[0].row ? views[0].row.time : null, unit = views[0].about.timeUnit;
    find("now").textContent = `step ${step} of ${last()}` + (time === null ? "" : `, t = ${nacre.format(time)} ${unit}`);
  }

  async function go(to) {
    step = Math.max(0, Math.min(last(), Math.round(to)));
    slider.value = step;
    const asked = performance.now(), wanted = step;
    follow();
    await Promise.all(views.map((view) => view.show(Math.min(step, view.length - 1))));
    tell();
    if (wanted === step) requestAnimationFrame(() => nacre.measured.moves.push(performance.now() - asked));
  }

  // While zoomed in, the window goes with the step.
  function follow() {
    for (const view of views) {
      const size = Math.max(20, Math.ceil(view.length / zoom)), at = Math.min(step, view.length - 1);
      if (size >= view.length ? view.start === 0 && view.stop === view.length : at >= view.start && at < view.stop && view.size === size) continue;
      view.size = size;
      const start = Math.max(0, Math.min(view.length - size, Math.floor(at - size / 4)));
      view.window(start, Math.min(view.length, start + size)).catch(report);
    }
  }

  function setZoom(next) {
    zoom = Math.max(1, Math.min(next, views[0].length / 20));
    for (const view of views) view.size = null;
    follow();
  }

  function setPlaying(on) {
    playing = on;
    play.textContent = on ? "❚❚" : "▶";
    play.setAttribute("aria-label", on ? "Pause" : "Play");
    if (!on) return;
    if (step >= last()) step = 0;
    let at = performance.now(), place = step;
    const tick = async (now) => {
      if (!playing) return;
      place += ((now - at) / 1000) * Number(find("speed").value);
      at = now;
      if (Math.floor(place) !== step) await go(Math.floor(place));
      if (step >= last()) setPlaying(false);
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  async function choose(sample) {
    setPlaying(false);
    await Promise.all(views.map((view) => view.choose({ sample, start: 0, stop: view.about.layers[view.layer].lengths[sample] })));
    slider.max = last();
    zoom = 1;
    await go(Math.min(step, last()));
  }

  const keys = {
    " ": () => setPlaying(!playing),
    ArrowLeft: (event) => go(step - (event.shiftKey ? 10 : 1)),
    ArrowRight: (event) => go(step + (event.shiftKey ? 10 : 1)),
    Home: () => go(0),
    End: () => go(last()),
    "+": () => setZoom(zoom * 2),
    "-": () => setZoom(zoom / 2),
    h: () => { for (const view of views) view.choose({ head: (view.head + 1) % view.seen.heads }); },
    t: () => { nacre.toggleTheme(); views.forEach((view) => view.redraw()); },
    Escape: () => views.forEach((view) => view.setLesions([])),
    "?": () => find("help").click(),
  };

  function listen() {
    slider.addEventListener("input", () => { setPlaying(false); go(Number(slider.value)); });
    play.addEventListener("click", () => setPlaying(!playing));
    find("sample").addEventListener("change", (event) => choose(Number(event.target.value)).catch(report));
    find("colour").addEventListener("change", (event) => { nacre.mode = event.target.value; views.forEach((view) => view.redraw()); });
    find("zoom-in").addEventListener("click", () => setZoom(zoom * 2));
    find("zoom-out").addEventListener("click", () => setZoom(zoom / 2));
    find("theme").addEventListener("click", () => keys.t());
    find("help").addEventListener("click", () => {
      find("keys").hidden = !find("keys").hidden;
      find("help").setAttribute("aria-expanded", !find("keys").hidden);
    });
    find("save-svg").addEventListener("click", () => nacre.saveSvg().catch(report));
    find("save-png").addEventListener("click", () => nacre.savePng().catch(report));
    find("save-csv").addEventListener("click", () => nacre.saveCsv(views));
    document.addEventListener("keydown", (event) => {
      const typing = ["SELECT", "TEXTAREA"].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey;
      const pressing = event.key === " " && event.target.tagName === "BUTTON";
      if (typing || pressing || !(event.key in keys)) return;
      event.preventDefault();
      keys[event.key](event);
    });
    window.addEventListener("resize", () => {
      clearTimeout(moving);
      moving = setTimeout(() => views.forEach((view) => view.redraw()), 100);
    });
  }

  async function start() {
    const about = await nacre.source.about(), [first] = about.runs;
    find("title").textContent = about.runs.length > 1 ? "nacre: two runs" : `nacre: ${first.name}`;
    document.title = find("title").textContent;
    const shared = Math.min(...about.runs.map((run) => run.samples.length));
    first.samples.slice(0, shared).forEach((name, i) => nacre.html("option", { value: i }, find("sample"), name));
    find("views").classList.toggle("two", about.runs.length > 1);
    views = about.runs.map((run, i) => new nacre.View(find("views"), i, run, { pick: go, problem: report,
      several: about.runs.length > 1 }));
    nacre.views = views;
    if (!views.some((view) => view.alive)) find("silencing").textContent = nacre.source.report ?
      "This file cannot run the model: to silence neurons, open the run with `nacre view`." :
      "This recording holds no model, so nothing can be silenced.";
    listen();
    await choose(0);
    nacre.measured.first = performance.now();
    document.body.dataset.ready = "yes";
  }

  start().catch(report);
})(window.nacre);
