// ---------------------------------------------------------------- live
(() => {
  const MILLISECONDS = 2000;
  const told = byId("connection");
  let pressed = false;

  // A press that has not ended is a drag over a chart, or a word that is being marked.
  document.addEventListener("pointerdown", () => { pressed = true; });
  for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, () => { pressed = false; });

  const time = () => new Date().toLocaleTimeString("en-GB");
  function say(text, isFault) {
    // The time changes every two seconds, which a screen reader need not say.
    told.setAttribute("aria-live", isFault ? "polite" : "off");
    if (told.textContent !== text) told.textContent = text;
    told.classList.toggle("fault", isFault);
  }

  function isRead(section) {
    const marked = getSelection();
    const isMarked = !marked.isCollapsed && [marked.anchorNode, marked.focusNode].some((node) => section.contains(node));
    // An open list of choices would close.
    const isChosen = section.contains(document.activeElement) && document.activeElement.tagName === "SELECT" && !adopt[section.id];
    return isMarked || isChosen;
  }

  const place = (section, kind) => [...section.querySelectorAll(kind)];
  function replace(section, fresh) {
    const kept = place(section, "details").map((part) => part.open);
    const scrolled = place(section, ".scroll, pre").map((part) => [part.scrollLeft, part.scrollTop]);
    const chosen = place(section, "select").map((part) => part.value);
    const focusable = "a, button, select, summary, [tabindex]";
    const focused = place(section, focusable).indexOf(document.activeElement);
    section.replaceChildren(...fresh.childNodes);
    place(section, "details").forEach((part, index) => { part.open = kept[index] ?? false; });
    place(section, "select").forEach((part, index) => {
      if ([...part.options].some((option) => option.value === chosen[index])) part.value = chosen[index];
    });
    place(section, ".scroll, pre").forEach((part, index) => {
      [part.scrollLeft, part.scrollTop] = scrolled[index] ?? [0, 0];
    });
    place(section, focusable)[focused]?.focus({ preventScroll: true });
  }

  /** Do a change and leave what stands at the top of the window where it is. */
  function inPlace(change) {
    const main = document.querySelector("main");
    const sections = [...main.children];
    const section = sections.find((part) => part.getBoundingClientRect().bottom > 0);
    if (!section || scrollY === 0) return change();
    // Its place, as the element itself may be replaced.
    const path = [];
    let anchor = section;
    for (;;) {
      const index = [...anchor.children].findIndex((part) => part.getBoundingClientRect().bottom > 0);
      if (index < 0) break;
      path.push(index);
      anchor = anchor.children[index];
    }
    const before = anchor.getBoundingClientRect().top;
    document.documentElement.style.overflowAnchor = "none";
    change();
    let now = section;
    for (const index of path) now = now.children[index] ?? now;
    scrollBy({ top: now.getBoundingClientRect().top - before, behavior: "instant" });
    document.documentElement.style.overflowAnchor = "";
    return undefined;
  }

  async function ask(name) {
    const answer = await fetch(name, { cache: "no-store" });
    if (!answer.ok) throw new Error(String(answer.status));
    return answer;
  }

  async function update() {
    const state = await (await ask("state")).json();
    let isLate = false;
    for (const [name, version] of Object.entries(state.versions)) {
      const section = byId(name);
      if (!section || section.dataset.version === version) continue;
      if (pressed || isRead(section)) {
        isLate = true;
        continue;
      }
      const answer = await ask(`section/${name}`);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body;
      inPlace(() => (adopt[name] ?? replace)(section, fresh));
      section.dataset.version = answer.headers.get("x-version");
      if (name === "tables") showHorizon();
    }
    document.title = state.title;
    document.querySelector("h1").textContent = state.title;
    if (state.fault) say(`${state.fault} Shown is what was read before; it goes on by itself.`, true);
    else say(`Live: ${state.summary} ${isLate ? "Newer numbers wait until you are done reading." : `Up to date at ${time()}.`}`, false);
  }

  let failed = "";
  async function look() {
    // A page that nobody sees asks for nothing.
    if (!document.hidden) {
      try {
        await update();
        failed = "";
      } catch (error) {
        failed ||= time();
        const isGone = error instanceof TypeError;
        say(isGone
          ? `The server has not answered since ${failed}: it has ended, or the connection is lost. Shown is what was read before.`
          : `The server could not say what is new (${error.message}) since ${failed}. Shown is what was read before.`, true);
      }
    }
    setTimeout(look, MILLISECONDS);
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden) told.classList.remove("fault"); });
  look();
})();
