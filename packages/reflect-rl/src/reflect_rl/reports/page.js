"use strict";

(() => {
  const byId = (id) => document.getElementById(id);

  const horizon = byId("horizon");
  if (horizon) {
    const show = () => {
      for (const part of document.querySelectorAll(".horizon")) part.hidden = part.dataset.horizon !== horizon.value;
    };
    horizon.addEventListener("change", show);
    show();
  }

  const embedded = byId("episode-data");
  if (!embedded) return;
  const { methods, texts, episodes } = JSON.parse(embedded.textContent);
  if (episodes.length === 0) return;
  byId("browser").hidden = false;

  const keys = ["group", "method", "mode", "decoding"];
  const label = { method: Object.fromEntries(methods) };
  let shown = 0;
  let turn = 0;

  const minus = (number, digits) => number.toFixed(digits).replace("-", "\u2212");
  const total = (turns) => turns.reduce((sum, step) => sum + (step[6] ?? 0), 0);

  function fill(select, options, chosen) {
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value, false, value === chosen)));
    select.disabled = options.length < 2;
  }

  // Each list offers what exists under the choices to its left.
  function fillChoosers() {
    const episode = episodes[shown];
    let rest = episodes;
    for (const key of keys) {
      const values = [...new Set(rest.map((other) => other[key]))];
      fill(byId(`choose-${key}`), values.map((value) => [value, label[key]?.[value] ?? value]), episode[key]);
      rest = rest.filter((other) => other[key] === episode[key]);
    }
    const starts = rest.map((other) => [String(episodes.indexOf(other)), `${other.success ? "✓" : "✗"} ${other.start}`]);
    fill(byId("choose-start"), starts, String(shown));
  }

  // After a change, the nearest episode: the changed list counts most, then the others from left to right, then the start.
  function choose(changed) {
    const old = episodes[shown];
    const wanted = { ...old, [changed]: byId(`choose-${changed}`).value };
    const order = [changed, ...keys.filter((key) => key !== changed), "start"];
    const score = (episode) => order.reduce((sum, key) => 2 * sum + (episode[key] === wanted[key] ? 1 : 0), 0);
    let best = 0;
    episodes.forEach((episode, index) => {
      if (score(episode) > score(episodes[best])) best = index;
    });
    open(best, 0);
  }

  function actionRow(number, action, probability, chosen) {
    const row = document.createElement("li");
    row.className = chosen ? "chosen" : "";
    const cell = (name, text) => {
      const part = document.createElement("span");
      part.className = name;
      part.textContent = text;
      row.append(part);
      return part;
    };
    cell("label-number", String(number));
    cell("action", action);
    if (probability !== null) {
      const bar = cell("bar", "");
      const filled = document.createElement("span");
      filled.style.width = `${100 * probability}%`;
      bar.append(filled);
      cell("share", `${(100 * probability).toFixed(1)}%`);
    }
    return row;
  }

  function verdict(episode) {
    const ending = episode.success ? "Won" : episode.truncated ? "Lost: out of turns" : "Lost: the game ended";
    return `${ending} after ${episode.turns.length} turns, return ${minus(total(episode.turns), 2)}.`;
  }

  function render() {
    const episode = episodes[shown];
    const count = episode.turns.length;
    byId("slider").max = String(Math.max(0, count - 1));
    byId("slider").value = String(turn);
    byId("position").textContent = count ? `turn ${turn + 1} of ${count}` : "no turns";
    for (const id of ["first", "previous"]) byId(id).disabled = turn === 0;
    for (const id of ["next", "last"]) byId(id).disabled = turn >= count - 1;
    byId("verdict").textContent = turn >= count - 1 ? verdict(episode) : "";
    byId("verdict").className = episode.success ? "won" : "lost";
    if (count === 0) return;
    const [text, reflection, actions, order, probabilities, choice, reward, answer] = episode.turns[turn];
    byId("state").textContent = texts[text];
    byId("reflection").textContent = reflection === null ? "none" : texts[reflection];
    byId("actions-label").textContent = probabilities ? "Actions, with the policy's probabilities" : "Actions";
    const rows = order.map((index, number) =>
      actionRow(number, texts[actions][index], probabilities ? probabilities[index] ?? 0 : null, index === choice));
    byId("actions").replaceChildren(...rows);
    for (const id of ["answer", "answer-label"]) byId(id).hidden = answer === undefined;
    byId("answer").textContent = answer === undefined ? "" : texts[answer];
    byId("answer-label").textContent = choice < 0 ? "Answer, which names no action: the turn passes" : "Answer";
    const running = total(episode.turns.slice(0, turn + 1));
    const now = reward === null ? "not a number" : minus(reward, 2);
    byId("reward").textContent = `Reward ${now}, return so far ${minus(running, 2)}`;
  }

  function open(index, at) {
    shown = index;
    turn = 0;
    fillChoosers();
    step(at);
  }

  function step(to) {
    turn = Math.max(0, Math.min(to, episodes[shown].turns.length - 1));
    render();
  }

  const go = { first: () => 0, previous: () => turn - 1, next: () => turn + 1, last: () => Infinity };
  for (const [id, target] of Object.entries(go)) byId(id).addEventListener("click", () => step(target()));
  byId("slider").addEventListener("input", (event) => step(Number(event.target.value)));
  for (const key of keys) byId(`choose-${key}`).addEventListener("change", () => choose(key));
  byId("choose-start").addEventListener("change", (event) => open(Number(event.target.value), 0));
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || /^(SELECT|INPUT)$/.test(event.target.tagName)) return;
    if (event.key === "ArrowLeft") step(turn - 1);
    if (event.key === "ArrowRight") step(turn + 1);
  });

  // A link such as report.html#episode=3&turn=5 opens that turn (counted from 1).
  function fromLink() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    if (!wanted.has("episode")) return false;
    const index = Math.max(0, Math.min(episodes.length - 1, Number(wanted.get("episode")) || 0));
    open(index, (Number(wanted.get("turn")) || 1) - 1);
    byId("episodes").scrollIntoView();
    return true;
  }
  window.addEventListener("hashchange", fromLink);
  if (!fromLink()) {
    const last = methods.at(-1)[0];
    open(Math.max(0, episodes.findIndex((episode) => episode.method === last)), 0);
  }
})();
