"use strict";

(() => {
  const panels = JSON.parse(document.getElementById("panel-data").textContent);
  // Paper is light.
  const dark = matchMedia("screen and (prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => (value == null ? "–" : String(Number(value.toPrecision(4))));

  // Black is the colour of a method, and would be lost on a dark page.
  const shade = (line) => (line.colour === "#000000" ? colour("--ink") : line.colour);

  // Upright lines for the intervals, and a ring around what was selected.
  function marks(panel) {
    const draw = (plot) => {
      const { ctx } = plot;
      ctx.save();
      ctx.lineWidth = 1.5 * devicePixelRatio;
      panel.lines.forEach((line, number) => {
        if (!plot.series[number + 1].show) return;
        ctx.strokeStyle = shade(line);
        line.x.forEach((x, index) => {
          const left = plot.valToPos(x, "x", true);
          ctx.beginPath();
          ctx.moveTo(left, plot.valToPos(line.lo[index], "y", true));
          ctx.lineTo(left, plot.valToPos(line.hi[index], "y", true));
          ctx.stroke();
        });
      });
      if (panel.selected) {
        const [x, y] = panel.selected;
        ctx.strokeStyle = colour("--ink");
        ctx.beginPath();
        ctx.arc(plot.valToPos(x, "x", true), plot.valToPos(y, "y", true), 8 * devicePixelRatio, 0, 2 * Math.PI);
        ctx.stroke();
      }
      ctx.restore();
    };
    return { hooks: { draw } };
  }

  function range(panel, values) {
    if (panel.names.length) return [-0.5, panel.names.length - 0.5];
    const [low, high] = [Math.min(...values), Math.max(...values)];
    if (panel.is_log) return [low / 1.3, high * 1.3];
    const margin = (high - low || Math.abs(high) || 1) * 0.06;
    return [low - margin, high + margin];
  }

  function build(holder, panel) {
    const data = uPlot.join(panel.lines.map((line) => [line.x, line.y]));
    const places = [...data[0]];
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    const few = places.length <= 8;
    const name = (place) => (panel.names.length ? panel.names[place] ?? "" : short(place));
    // Long names would lie on each other; a letter takes 10 pixels at most.
    const room = Math.max(4, Math.floor(holder.clientWidth / (10 * places.length)));
    const cut = (text) => (text.length > room ? `${text.slice(0, room - 1)}…` : text);
    const series = panel.lines.map((line) => ({
      label: line.label || "validation success",
      stroke: shade(line),
      // Points of many lines that are packed into one belong to different settings.
      paths: panel.has_names ? undefined : () => null,
      width: 1.5,
      spanGaps: true,
      points: { show: true, size: 7, fill: shade(line) },
      value: (plot, value) => (value == null ? "–" : `${(100 * value).toFixed(1)}%`),
    }));
    const options = {
      width: holder.clientWidth,
      height: 240,
      legend: { show: panel.has_names },
      cursor: { drag: { x: false, y: false } },
      scales: {
        x: { time: false, distr: panel.is_log ? 3 : 1, range: () => range(panel, places) },
        y: { range: [-0.03, 1.03] },
      },
      axes: [
        { ...axis, size: 34, ...(few ? { splits: () => places, filter: (plot, splits) => splits } : {}), values: (plot, splits) => splits.map((place) => (place == null ? "" : cut(name(place)))) },
        { ...axis, size: 50, values: (plot, splits) => splits.map((value) => `${Math.round(100 * value)}%`) },
      ],
      series: [{ label: panel.field, value: (plot, value) => (value == null ? "–" : name(value)) }, ...series],
      plugins: [marks(panel)],
    };
    const plot = new uPlot(options, data, holder);
    const canvas = plot.root.querySelector("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `validation success against ${panel.field}; the table has the numbers`);
    // The library's legend knows the mouse only.
    [...plot.root.querySelectorAll(".u-legend th")].slice(1).forEach((head, index) => {
      const reflect = () => head.setAttribute("aria-pressed", String(plot.series[index + 1].show));
      head.addEventListener("click", reflect);
      reflect();
      head.tabIndex = 0;
      head.setAttribute("role", "button");
      head.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        head.click();
      });
    });
    return plot;
  }

  if (!self.uPlot) {
    document.querySelector(".no-charts").hidden = panels.length === 0;
    return;
  }
  document.querySelectorAll(".panel").forEach((figure, number) => {
    figure.hidden = false;
    const holder = figure.querySelector(".plot");
    let plot = null;
    const draw = () => {
      if (plot) plot.destroy();
      plot = build(holder, panels[number]);
      figure.plot = plot;
    };
    dark.addEventListener("change", draw);
    draw();
    new ResizeObserver(() => {
      if (plot.width !== holder.clientWidth) plot.setSize({ width: holder.clientWidth, height: 240 });
    }).observe(holder);
  });
})();
