"use strict";

const byId = (id) => document.getElementById(id);

/** How a section takes a newer version of itself (an element with its content); the others are replaced as a whole. */
const adopt = {};

// ---------------------------------------------------------------- tables
function showHorizon() {
  const horizon = byId("horizon");
  if (!horizon) return;
  for (const part of document.querySelectorAll(".horizon")) part.hidden = part.dataset.horizon !== horizon.value;
}
document.addEventListener("change", (event) => {
  if (event.target.id === "horizon") showHorizon();
});
showHorizon();

