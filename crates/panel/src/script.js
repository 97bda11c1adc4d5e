// Replaces the parts of the page that change. Without it the page is as of when it was loaded.
"use strict";
(() => {
  const address = document.body.dataset.live;
  if (!address) return;
  const events = new EventSource(address);
  events.addEventListener("part", (event) => {
    const part = JSON.parse(event.data);
    const element = document.getElementById(part.id);
    if (!element) return;
    const focused = element.contains(document.activeElement) ? document.activeElement.id : "";
    // The server has escaped every text in it.
    element.innerHTML = part.html;
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  });
  const connected = (is) => document.body.classList.toggle("stale", !is);
  events.addEventListener("open", () => connected(true));
  events.addEventListener("error", () => connected(false));
  // The token is no longer valid.
  events.addEventListener("end", () => { events.close(); location.reload(); });
})();
