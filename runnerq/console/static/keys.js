// Keys, off inside inputs and dialogs.
(() => {
  const find = (selector) => document.querySelector(selector);
  const row = () => document.activeElement.closest("tr");
  const PLACES = { r: "/runs", f: "/dead-letter", s: "/schedules", q: "/queues", w: "/workers" };
  let going = 0;

  function move(by) {
    const rows = [...document.querySelectorAll("[data-keys] > tbody > tr")].filter((each) => each.querySelector("a"));
    rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(row()) + by))]?.querySelector("a").focus();
  }

  const ACTIONS = {
    "/": () => find("#search")?.focus(),
    "?": () => find("#keys")?.togglePopover(),
    j: () => move(1),
    k: () => move(-1),
    x: () => row()?.querySelector("[type=checkbox]")?.click(),
    r: () => location.reload(),
    p: () => find("#live:not([hidden])")?.click(),
    t: () => (find("#theme [aria-pressed=true] ~ button") ?? find("#theme button"))?.click(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("input:not([type=checkbox]), select, textarea, [popover]")) return;
    const place = Date.now() - going < 1500 && PLACES[event.key], act = ACTIONS[event.key];
    going = event.key === "g" ? Date.now() : 0;
    if (place) location.href = document.body.dataset.base + place;
    else if (act) act();
    else return;
    event.preventDefault();
  });
})();
