// ---------------------------------------------------------------- charts
(() => {
  // Paper is light.
  const dark = matchMedia("screen and (prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => (value == null ? "–" : String(Number(value.toPrecision(4))));

  // A logarithmic axis has no place for zero and below.
  const positive = (values, isLog) => (isLog ? values.map((value) => (value > 0 ? value : null)) : values);

  function columns(lines, isLog) {
    return uPlot.join(lines.map((line) => {
      const parts = [line.y, line.lo ?? line.y, line.hi ?? line.y];
      return [line.x, ...parts.map((part) => positive(part, isLog))];
    }));
  }

  // Three series for each line: its values, and the ends of its band, which the legend does not list.
  function seriesOf(lines, hidden) {
    return lines.flatMap((line, number) => {
      const stroke = line.colour === "#000000" ? colour("--ink") : line.colour;
      const value = (plot, raw, index, at) => {
        const [lo, hi] = [plot.data[3 * number + 2][at], plot.data[3 * number + 3][at]];
        return raw == null ? "–" : lo !== hi ? `${short(raw)} (${short(lo)} to ${short(hi)})` : short(raw);
      };
      const show = !hidden.has(line.label);
      const end = { show, class: "end", stroke: "transparent", points: { show: false }, spanGaps: true };
      return [
        { show, label: line.label, stroke, width: 2, dash: line.dashed ? [6, 4] : undefined, spanGaps: true, value },
        end,
        { ...end },
      ];
    });
  }

  function stagesPlugin(stages) {
    const draw = (plot) => {
      const { ctx } = plot;
      let start = plot.scales.x.min;
      ctx.save();
      ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
      ctx.fillStyle = colour("--soft");
      ctx.strokeStyle = colour("--line");
      for (const [name, end] of stages()) {
        const stop = Math.min(end, plot.scales.x.max);
        if (stop <= start) continue;
        const [left, right] = [plot.valToPos(start, "x", true), plot.valToPos(stop, "x", true)];
        if (ctx.measureText(name).width < right - left) ctx.fillText(name, left + 2, plot.bbox.top - 4 * devicePixelRatio);
        ctx.beginPath();
        ctx.moveTo(right, plot.bbox.top);
        ctx.lineTo(right, plot.bbox.top + plot.bbox.height);
        ctx.stroke();
        start = stop;
      }
      ctx.restore();
    };
    return { hooks: { drawClear: draw } };
  }

  /** One chart with its controls. `state` is what a reader has chosen: measure, log, hidden lines, range. */
  class Chart {
    constructor(figure, part, state = {}) {
      this.figure = figure;
      this.part = part;
      this.hidden = state.hidden ?? new Set();
      [this.holder, this.measure, this.log] = [".plot", ".measure", ".log"].map((name) => figure.querySelector(name));
      if (part.measures[state.measure]) this.measure.value = state.measure;
      this.log.setAttribute("aria-pressed", String(state.isLog ?? false));
      this.measure.addEventListener("change", () => this.draw());
      this.log.addEventListener("click", () => {
        this.log.setAttribute("aria-pressed", String(!this.isLog));
        this.draw();
      });
      figure.querySelector(".whole").addEventListener("click", () => this.draw());
      this.draw(state.range);
      this.watcher = new ResizeObserver(() => {
        if (this.plot.width !== this.holder.clientWidth) this.plot.setSize({ width: this.holder.clientWidth, height: 300 });
      });
      this.watcher.observe(this.holder);
    }

    get isLog() {
      return this.log.getAttribute("aria-pressed") === "true";
    }

    get range() {
      if (!this.plot.zoomed) return null;
      return Object.fromEntries(["x", "y"].map((key) => [key, { min: this.plot.scales[key].min, max: this.plot.scales[key].max }]));
    }

    get state() {
      return { measure: this.measure.value, isLog: this.isLog, hidden: this.hidden, range: this.range };
    }

    draw(range = null) {
      this.plot?.destroy();
      this.plot = this.build();
      this.figure.plot = this.plot;
      this.tell();
      this.zoom(range);
    }

    /** The chart in words, for those who do not see it. */
    tell() {
      const ends = this.part.measures[this.measure.value].map(({ label, y }) => `${label} ${short(y.findLast((value) => value != null))}`);
      const canvas = this.plot.root.querySelector("canvas");
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${this.measure.value} against ${this.part.x}; at the end: ${ends.join(", ")}`);
    }

    zoom(range) {
      if (!range) return;
      this.plot.zoomed = true;
      for (const key of ["x", "y"]) this.plot.setScale(key, range[key]);
    }

    /** Newer numbers of the same metrics: what is zoomed, hidden or pointed at stays. */
    update(part) {
      const labels = (some) => some.measures[this.measure.value].map((line) => line.label).join("\n");
      const isSame = labels(part) === labels(this.part);
      const range = this.range;
      this.part = part;
      if (!isSame) {
        this.draw(range);
        return;
      }
      this.plot.setData(columns(part.measures[this.measure.value], this.isLog), range === null);
      this.tell();
      if (range) this.plot.redraw();
    }

    end() {
      this.watcher.disconnect();
      this.plot.destroy();
    }

    build() {
      const { part, holder, isLog } = this;
      const measure = this.measure.value;
      const lines = part.measures[measure];
      const series = seriesOf(lines, this.hidden);
      const isRate = measure.includes("rate") && !measure.includes("learning_rate");
      const data = columns(lines, isLog);
      const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
      const options = {
        width: holder.clientWidth,
        height: 300,
        cursor: { drag: { x: true, y: true, uni: 30 } },
        scales: {
          x: { time: false, distr: part.logX ? 3 : 1 },
          // Rates keep one scale, so that charts can be compared; a little below 0, where a line would hide in the axis.
          y: isLog ? { distr: 3 } : isRate ? { range: (plot, lo, hi) => (lo < -0.02 || hi > 1.02 || plot.zoomed ? [lo, hi] : [-0.03, 1.03]) } : {},
        },
        axes: [
          { ...axis, label: part.x, labelSize: 22, size: 34, ...(part.logX ? { splits: () => [...new Set(data[0])], filter: (plot, splits) => splits } : {}) },
          { ...axis, size: 56, values: (plot, splits) => splits.map((value) => (value == null ? "" : short(value))) },
        ],
        series: [{ label: part.x, value: (plot, value) => (value == null ? "–" : Math.round(value).toLocaleString("en")) }, ...series],
        bands: lines.flatMap((line, number) => (line.lo
          ? [{ series: [3 * number + 3, 3 * number + 2], fill: `${series[3 * number].stroke}${lines.length > 5 ? "14" : "2e"}` }] : [])),
        legend: { markers: { dash: (plot, index) => (lines[(index - 1) / 3]?.dashed ? "dashed" : "solid") } },
        plugins: [stagesPlugin(() => this.part.stages)],
        hooks: {
          // The ends of a band follow their line.
          setSeries: [(plot, index, change) => {
            if (index == null || index % 3 !== 1 || change.show === undefined) return;
            for (const end of [index + 1, index + 2]) plot.setSeries(end, { show: change.show });
            this.hidden[change.show ? "delete" : "add"](lines[(index - 1) / 3].label);
            reflect();
          }],
          setSelect: [(plot) => { plot.zoomed = plot.select.width > 0 || plot.select.height > 0; }],
        },
      };
      const plot = new uPlot(options, data, holder);
      // Before the library's own listener, which asks for the range of the whole.
      plot.over.addEventListener("dblclick", () => { plot.zoomed = false; }, true);
      const names = [...plot.root.querySelectorAll(".u-series:not(.end) th")].slice(1);
      const reflect = () => names.forEach((name, index) => {
        name.setAttribute("aria-pressed", String(plot.series[3 * index + 1].show));
      });
      // The library's legend knows the mouse only.
      for (const name of names) {
        name.tabIndex = 0;
        name.setAttribute("role", "button");
        name.addEventListener("keydown", (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          name.click();
        });
      }
      reflect();
      return plot;
    }
  }

  let charts = [];
  const partsIn = (section) => JSON.parse(section.querySelector("#chart-data").textContent);
  // What a chart is known by from one version of the page to the next.
  const nameOf = (part) => `${part.title}\n${part.x}`;

  function start(section, states = {}) {
    const parts = partsIn(section);
    const figures = [...section.querySelectorAll(".chart")];
    // The rest of the page does not need them.
    if (!self.uPlot) {
      section.querySelector(".no-charts").hidden = figures.length === 0;
      return;
    }
    charts = figures.map((figure) => {
      figure.hidden = false;
      const part = parts[Number(figure.dataset.chart)];
      return new Chart(figure, part, states[nameOf(part)]);
    });
  }

  adopt.curves = (section, fresh) => {
    const parts = partsIn(fresh);
    const shape = (part) => nameOf(part) + Object.keys(part.measures).join("\n");
    if (charts.length && parts.map(shape).join("\n") === charts.map((chart) => shape(chart.part)).join("\n")) {
      charts.forEach((chart, index) => chart.update(parts[index]));
      return;
    }
    const states = Object.fromEntries(charts.map((chart) => [nameOf(chart.part), chart.state]));
    for (const chart of charts) chart.end();
    section.replaceChildren(...fresh.childNodes);
    start(section, states);
  };

  dark.addEventListener("change", () => charts.forEach((chart) => chart.draw(chart.range)));
  start(byId("curves"));
})();
