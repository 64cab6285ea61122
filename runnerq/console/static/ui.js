// Copying, ticking, keys, times.
(() => {
  const find = (selector) => document.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  function toast(words) {
    const line = document.createElement("p");
    line.className = "note ok";
    line.textContent = words;
    find("#toasts").append(line);
    setTimeout(() => line.remove(), 3000);
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Without https.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    toast("Copied");
  }

  function count() {
    for (const each of all("#bulk [data-count]")) each.textContent = all("#bulk [name=id]:checked").length;
  }

  document.addEventListener("click", ({ target }) => {
    const from = target.closest("[data-copy], [data-copy-from]")?.dataset;
    if (from) copy(from.copy ?? find(from.copyFrom).textContent);
  });
  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-all]")) for (const each of all("#bulk [name=id]")) each.checked = target.checked;
    count();
  });
  document.addEventListener("htmx:after:swap", count);

  // As the server's `ago`, by its clock.
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const of = (at, far) => far >= UNITS[at]?.[0] ? `${Math.floor(far / UNITS[at][0])} ${UNITS[at][1]}` : "";
  const skew = Date.now() - Date.parse(document.body.dataset.now);
  setInterval(() => {
    for (const each of all("time[data-ago]")) {
      const past = Date.now() - skew - Date.parse(each.dateTime), far = Math.abs(past) / 1000;
      const at = UNITS.findIndex(([unit]) => far >= unit), words = of(at, far);
      each.textContent = at < 0 ? "just now" : past > 0 ? `${words} ago`
        : `in ${words} ${at < 2 ? of(at + 1, far % UNITS[at][0]) : ""}`.trim();
    }
  }, 1000);

  const row = () => document.activeElement.closest("tr");
  const PLACES = { r: "/runs", f: "/dead-letter", s: "/schedules", q: "/queues", w: "/workers" };
  let going = 0;

  function move(by) {
    const rows = all("[data-keys] > tbody > tr:has(a)");
    rows[rows.indexOf(row()) + by]?.querySelector("a").focus();
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
    const { key, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (target.closest("input:not([type=checkbox]), select, textarea, [popover]")) return;
    const place = Date.now() - going < 1500 && PLACES[key], act = ACTIONS[key];
    going = key === "g" ? Date.now() : 0;
    if (place) location.href = document.body.dataset.base + place;
    else if (act) act();
    else return;
    event.preventDefault();
  });
})();
