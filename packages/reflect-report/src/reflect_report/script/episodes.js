// ---------------------------------------------------------------- episodes
(() => {
  const keys = ["group", "method", "mode", "decoding"];
  const LISTED = 200;
  const SECONDS = { 0.5: 1600, 1: 800, 2: 400, 4: 200 };
  let [methods, texts, episodes, titles] = [[], [], [], {}];
  let [shown, beside, turn, playing] = [0, -1, 0, 0];
  let found = [];

  // Two decimals, and two digits of a reward that these would show as 0; sums that are 0 but for rounding stay 0.
  const minus = (number) => {
    const size = Math.abs(number);
    const text = size > 1e-9 && size < 0.005 ? String(Number(number.toPrecision(2))) : (size > 1e-9 ? number : 0).toFixed(2);
    return text.replace("-", "\u2212");
  };
  const total = (turns) => turns.reduce((sum, step) => sum + (step[6] ?? 0), 0);
  // Seeds have nineteen digits; the pane shows them all.
  const brief = (episode) => episode.start.replace(/seed \d+(\d{4})$/, "seed …$1");
  const turnsOf = (episode) => `${episode.turns.length} turn${episode.turns.length === 1 ? "" : "s"}`;
  const nameOf = (episode) => `${titles[episode.method] ?? episode.method}, ${episode.decoding}`;

  // What an episode is, and not its place, which changes when more are played.
  const identity = (episode) => JSON.stringify([...keys, "start"].map((key) => episode[key]));

  function load(data) {
    ({ methods, texts, episodes } = data);
    titles = Object.fromEntries(methods);
    for (const key of keys) {
      const values = [...new Set(episodes.map((episode) => episode[key]))];
      const options = values.map((value) => new Option(key === "method" ? titles[value] ?? value : value, value));
      const choice = byId(`choose-${key}`);
      const chosen = choice.value;
      choice.replaceChildren(...(values.length > 1 ? [new Option("all", "")] : []), ...options);
      if (chosen && values.includes(chosen)) choice.value = chosen;
      choice.disabled = values.length < 2;
      // A choice of one says nothing.
      choice.parentElement.hidden = values.length < 2;
    }
  }

  // Texts are shared between turns, so each is searched once.
  function matcher(words) {
    const wanted = words.trim().toLowerCase();
    if (!wanted) return () => true;
    const hits = new Set();
    texts.forEach((text, index) => {
      if ((Array.isArray(text) ? text.join("\n") : text).toLowerCase().includes(wanted)) hits.add(index);
    });
    const speaks = (step) => hits.has(step[0]) || hits.has(step[1]) || hits.has(step[7]) || chosen(step).toLowerCase().includes(wanted);
    return (episode) => episode.start.toLowerCase().includes(wanted) || episode.turns.some(speaks);
  }
  const chosen = ([, , actions, , , choice]) => (choice < 0 ? "" : texts[actions][choice] ?? "");

  const orders = {
    start: null,
    longest: (a, b) => episodes[b].turns.length - episodes[a].turns.length,
    surprise: (a, b) => (episodes[a].surprise?.[1] ?? 2) - (episodes[b].surprise?.[1] ?? 2),
  };

  function filter() {
    const outcome = byId("choose-outcome").value;
    const matches = matcher(byId("search").value);
    found = [...episodes.keys()].filter((index) => {
      const episode = episodes[index];
      if (outcome && episode.success !== (outcome === "won")) return false;
      return keys.every((key) => !byId(`choose-${key}`).value || episode[key] === byId(`choose-${key}`).value) && matches(episode);
    });
    if (orders[byId("order").value]) found.sort(orders[byId("order").value]);
    const wins = found.filter((index) => episodes[index].success).length;
    byId("count").textContent = `${found.length.toLocaleString("en")} episode${found.length === 1 ? "" : "s"}, ${wins.toLocaleString("en")} won${found.length > LISTED ? `; the first ${LISTED} are listed` : ""}`;
    byId("list").replaceChildren(...found.slice(0, LISTED).map(entry));
    mark();
    byId("none").hidden = found.length > 0;
  }

  function entry(index) {
    const episode = episodes[index];
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.episode = String(index);
    const sign = document.createElement("span");
    sign.className = episode.success ? "won" : "lost";
    sign.textContent = episode.success ? "✓ " : "✗ ";
    const least = byId("order").value === "surprise" && episode.surprise
      ? `, ${(100 * episode.surprise[1]).toFixed(2)}% in turn ${episode.surprise[0] + 1}` : "";
    button.append(sign, `${nameOf(episode)} · ${brief(episode)} · ${turnsOf(episode)}${least}`);
    button.addEventListener("click", () => open(index));
    const item = document.createElement("li");
    item.append(button);
    return item;
  }

  function mark() {
    const buttons = [...byId("list").querySelectorAll("button")];
    // One stop of the Tab key for the whole list, in which the arrow keys move.
    const stop = buttons.find((button) => Number(button.dataset.episode) === shown) ?? buttons[0];
    for (const button of buttons) {
      const isShown = Number(button.dataset.episode) === shown;
      button.tabIndex = button === stop ? 0 : -1;
      if (isShown) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
      // Inside the list alone: the page itself must not jump.
      if (isShown) byId("list").scrollTop = button.offsetTop - byId("list").offsetTop - 60;
    }
  }

  function actionRow(number, action, probability, isChosen) {
    const row = document.createElement("li");
    row.className = isChosen ? "chosen" : "";
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
      const filled = document.createElement("span");
      filled.style.width = `${100 * probability}%`;
      cell("meter", "").append(filled);
      cell("share", `${(100 * probability).toFixed(1)}%`);
    }
    return row;
  }

  function pane(episode) {
    const part = byId("pane").content.cloneNode(true).firstElementChild;
    const inside = (name) => part.querySelector(`.${name}`);
    const ending = episode.success ? "Won" : episode.truncated ? "Lost, out of turns" : "Lost, the game ended";
    inside("name").textContent = nameOf(episode);
    inside("start").textContent = `${episode.start}, ${episode.group}`;
    inside("verdict").textContent = `${ending} after ${turnsOf(episode)}, return ${minus(total(episode.turns))}`;
    inside("verdict").classList.add(episode.success ? "won" : "lost");
    const at = Math.min(turn, episode.turns.length - 1);
    if (at < 0) return part;
    const [text, reflection, actions, order, probabilities, choice, reward, answer] = episode.turns[at];
    inside("state").textContent = texts[text];
    inside("reflection").textContent = reflection === null ? "none" : texts[reflection];
    inside("actions-label").textContent = probabilities ? "Actions, with the policy's probabilities" : "Actions";
    inside("actions").replaceChildren(...order.map((index, number) =>
      actionRow(number, texts[actions][index], probabilities ? probabilities[index] ?? 0 : null, index === choice)));
    for (const name of ["answer", "answer-label"]) inside(name).hidden = answer === undefined;
    inside("answer").textContent = answer === undefined ? "" : texts[answer];
    inside("answer-label").textContent = choice < 0 ? "Answer, which names no action: the turn passes" : "Answer";
    const now = reward === null ? "not a number" : minus(reward);
    const ended = turn > at ? " (the episode ended before)" : "";
    inside("reward").textContent = `Turn ${at + 1}${ended}: reward ${now}, return so far ${minus(total(episode.turns.slice(0, at + 1)))}`;
    return part;
  }

  const pair = () => (beside < 0 ? [episodes[shown]] : [episodes[shown], episodes[beside]]);
  const length = () => Math.max(1, ...pair().map((episode) => episode.turns.length));

  function render() {
    byId("slider").max = String(length() - 1);
    byId("slider").value = String(turn);
    byId("position").textContent = `turn ${turn + 1} of ${length()}`;
    for (const id of ["first", "previous"]) byId(id).disabled = turn === 0;
    for (const id of ["next", "last"]) byId(id).disabled = turn >= length() - 1;
    byId("panes").replaceChildren(...pair().map(pane));
    byId("panes").classList.toggle("two", beside >= 0);
    byId("link").href = address();
  }

  // By what an episode is and not by its place, so that a link still fits when more episodes were played.
  function address() {
    const values = Object.fromEntries([...keys, "start"].map((key) => [key, episodes[shown][key]]));
    if (beside >= 0) values.beside = besideOf(episodes[beside]);
    return `#episode&${new URLSearchParams({ ...values, turn: turn + 1 })}`;
  }

  const besideOf = (episode) => `${episode.method} ${episode.decoding}`;

  function offerPartners() {
    const other = beside < 0 ? "" : besideOf(episodes[beside]);
    const partners = [...episodes.keys()].filter((partner) => partner !== shown
      && ["group", "mode", "start"].every((key) => episodes[partner][key] === episodes[shown][key]));
    byId("beside").replaceChildren(new Option("nothing", ""), ...partners.map((partner) =>
      new Option(`${episodes[partner].success ? "✓" : "✗"} ${nameOf(episodes[partner])}`, besideOf(episodes[partner]))));
    byId("beside").disabled = partners.length === 0;
    // The same method stays beside it from start to start.
    beside = partners.find((partner) => besideOf(episodes[partner]) === other) ?? -1;
    byId("beside").value = beside < 0 ? "" : other;
  }

  function open(index, at = byId("order").value === "surprise" ? episodes[index].surprise?.[0] ?? 0 : 0) {
    shown = index;
    offerPartners();
    mark();
    step(at);
  }

  function step(to) {
    turn = Math.max(0, Math.min(to, length() - 1));
    render();
  }

  function play(start) {
    clearInterval(playing);
    const advance = () => (turn >= length() - 1 ? play(false) : step(turn + 1));
    playing = start ? setInterval(advance, SECONDS[byId("speed").value]) : 0;
    if (start && turn >= length() - 1) step(0);
    byId("play").textContent = start ? "Pause" : "Play";
    byId("play").setAttribute("aria-pressed", String(start));
    // While it plays, a screen reader would never come to an end.
    byId("panes").setAttribute("aria-live", start ? "off" : "polite");
  }

  function move(by) {
    const place = found.indexOf(shown);
    const next = found[Math.max(0, Math.min(found.length - 1, place + by))];
    if (next !== undefined) open(next);
  }

  // The controls are made anew where a live page gets its first episodes.
  function listen() {
    const go = { first: () => 0, previous: () => turn - 1, next: () => turn + 1, last: () => Infinity };
    for (const [id, target] of Object.entries(go)) byId(id).addEventListener("click", () => step(target()));
    byId("play").addEventListener("click", () => play(!playing));
    byId("speed").addEventListener("change", () => playing && play(true));
    byId("slider").addEventListener("input", (event) => step(Number(event.target.value)));
    for (const id of [...keys.map((key) => `choose-${key}`), "choose-outcome", "order"]) {
      byId(id).addEventListener("change", () => {
        filter();
        if (found.length && (!found.includes(shown) || id === "order")) open(found[0]);
      });
    }
    let pause = 0;
    byId("search").addEventListener("input", () => {
      clearTimeout(pause);
      pause = setTimeout(() => {
        filter();
        if (found.length && !found.includes(shown)) open(found[0]);
      }, 150);
    });
    byId("search").addEventListener("keydown", (event) => {
      if (event.key === "Escape") event.target.blur();
    });
    byId("beside").addEventListener("change", (event) => {
      beside = episodes.findIndex((episode, index) => index !== shown && besideOf(episode) === event.target.value
        && ["group", "mode", "start"].every((key) => episode[key] === episodes[shown][key]));
      step(turn);
    });
  }

  document.addEventListener("keydown", (event) => {
    if (!episodes.length || event.altKey || event.ctrlKey || event.metaKey) return;
    const isSlider = event.target.id === "slider";
    if (/^(SELECT|INPUT|TEXTAREA)$/.test(event.target.tagName) && !(isSlider && !event.key.startsWith("Arrow"))) return;
    // Tables that scroll keep their arrow keys.
    if (event.key.startsWith("Arrow") && event.target.closest(".scroll, pre")) return;
    const moveInList = event.target.closest("#list") && ((by) => {
      move(by);
      byId("list").querySelector("[aria-current]")?.focus({ preventScroll: true });
    });
    const act = {
      ...(moveInList && { ArrowDown: () => moveInList(1), ArrowUp: () => moveInList(-1) }),
      ArrowLeft: () => step(turn - 1),
      ArrowRight: () => step(turn + 1),
      j: () => move(1),
      k: () => move(-1),
      p: () => play(!playing),
      "/": () => byId("search").focus(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  function fromLink() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    if (!wanted.has("episode") || !episodes.length) return false;
    const index = episodes.findIndex((episode) => [...keys, "start"].every((key) => episode[key] === wanted.get(key)));
    byId("unknown").hidden = index >= 0;
    if (index < 0) return false;
    // A link that is followed on the page itself leaves the list as the reader has chosen it.
    if (!found.includes(index)) {
      for (const id of [...keys.map((key) => `choose-${key}`), "choose-outcome"]) if (!byId(id).disabled) byId(id).value = "";
      byId("search").value = "";
      filter();
    }
    open(index, (Number(wanted.get("turn")) || 1) - 1);
    byId("beside").value = wanted.get("beside") ?? "";
    byId("beside").dispatchEvent(new Event("change"));
    byId("episodes").scrollIntoView();
    return true;
  }
  window.addEventListener("hashchange", fromLink);

  const dataIn = (section) => JSON.parse(section.querySelector("#episode-data")?.textContent ?? '{"methods": [], "texts": [], "episodes": []}');

  function start(section) {
    const data = dataIn(section);
    if (!data.episodes.length) return;
    byId("browser").hidden = false;
    load(data);
    listen();
    if (fromLink()) return;
    filter();
    const last = methods.at(-1)[0];
    open(Math.max(0, episodes.findIndex((episode) => episode.method === last)), 0);
  }

  adopt.episodes = (section, fresh) => {
    const data = dataIn(fresh);
    if (!episodes.length || !data.episodes.length) {
      if (playing) play(false);
      [methods, texts, episodes] = [[], [], []];
      section.replaceChildren(...fresh.childNodes);
      start(section);
      return;
    }
    const [was, other] = [shown, beside].map((index) => (index < 0 ? "" : identity(episodes[index])));
    const before = JSON.stringify(pair().map((episode) => episode.turns.length));
    const scrolled = byId("list").scrollTop;
    const focused = document.activeElement?.dataset?.episode;
    const pointed = focused === undefined ? "" : identity(episodes[Number(focused)]);
    load(data);
    const find = (key) => episodes.findIndex((episode) => identity(episode) === key);
    [shown, beside] = [Math.max(0, find(was)), other ? find(other) : -1];
    byId("shown").textContent = fresh.querySelector("#shown").textContent;
    filter();
    byId("list").scrollTop = scrolled;
    if (pointed) byId("list").querySelector(`[data-episode="${find(pointed)}"]`)?.focus({ preventScroll: true });
    offerPartners();
    // What is read stays as it is, down to a marked word, unless it is another episode now.
    const isSame = identity(episodes[shown]) === was && JSON.stringify(pair().map((episode) => episode.turns.length)) === before;
    if (!isSame) step(turn);
  };

  start(byId("episodes"));
})();
