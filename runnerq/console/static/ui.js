// Copying, ticking, times that go on.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  function toast(words) {
    const line = document.createElement("p");
    line.className = "note ok";
    line.textContent = words;
    document.getElementById("toasts")?.append(line);
    setTimeout(() => line.remove(), 3000);
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // There is no clipboard without https.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    toast("Copied");
  }

  // The server does not know what is ticked.
  function count() {
    for (const each of all("#bulk [data-count]")) each.textContent = all("#bulk [name=id]:checked").length;
  }

  document.addEventListener("click", ({ target }) => {
    const from = target.closest("[data-copy], [data-copy-from]")?.dataset;
    if (from) copy(from.copy ?? document.querySelector(from.copyFrom).textContent);
  });
  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-all]")) for (const each of all("[name=id]", target.form)) each.checked = target.checked;
    count();
  });
  document.addEventListener("htmx:after:swap", count);

  // As the server's `ago`, by its clock.
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const skew = Date.now() - (Date.parse(document.body.dataset.now) || Date.now());
  setInterval(() => {
    if (document.hidden) return;
    for (const each of all("time[data-ago]")) {
      const past = Date.now() - skew - Date.parse(each.dateTime), far = Math.abs(past) / 1000;
      const [size, name] = UNITS.find(([unit]) => far >= unit) ?? [];
      const words = `${Math.floor(far / size)} ${name}`;
      each.textContent = !size ? "just now" : past < 0 ? `in ${words}` : `${words} ago`;
    }
  }, 1000);
})();
