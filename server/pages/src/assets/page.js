// Makes pages quicker that work without it: a choice in a form is sent at once, words typed into a search narrow the rows that
// are shown, and a page about what runs now keeps itself up to date.
"use strict";

for (const form of document.querySelectorAll("form[data-quick]")) {
  for (const choice of form.querySelectorAll("select")) {
    choice.addEventListener("change", () => form.requestSubmit());
  }
}

for (const field of document.querySelectorAll("input[data-narrows]")) {
  const rows = () => document.querySelectorAll(`#${field.dataset.narrows} tbody tr`);
  field.addEventListener("input", () => {
    const words = field.value.trim().toLowerCase();
    for (const row of rows()) {
      row.hidden = !row.textContent.toLowerCase().includes(words);
    }
  });
}

// seconds between two looks at a page about now; a page in the background is not loaded
const live = document.querySelector("[data-live]");
if (live) {
  const every = Number(live.dataset.live) * 1000;
  const pause = document.querySelector("[data-pause]");
  let paused = false;
  if (pause) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      pause.textContent = paused ? "Go on" : "Pause";
    });
  }
  const look = async () => {
    if (!paused && !document.hidden && !live.contains(document.activeElement)) {
      try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = answer.ok && page.querySelector("[data-live]");
        if (fresh) {
          live.replaceChildren(...fresh.childNodes);
        } else if (answer.ok) {
          // what ran has ended, and its page says more now
          location.reload();
          return;
        }
        document.body.classList.toggle("stale", !fresh);
      } catch {
        document.body.classList.add("stale");
      }
    }
    setTimeout(look, every);
  };
  setTimeout(look, every);
}
