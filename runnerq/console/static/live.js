// One EventSource a visible tab; "rq:change" on <body> says that something changed.
(() => {
  const body = document.body, url = body.dataset.stream, badge = document.getElementById("live");
  if (!url || !badge) return;
  const WORDS = { live: "Live", paused: "Paused", offline: "Offline", polling: "Every 10 s", out: "Signed out" };
  let source, retry, doubt, timer, first, state, paused = false, beats = 0;

  function show(next) {
    doubt = clearTimeout(doubt);
    state = badge.dataset.state = next;
    badge.textContent = WORDS[state];
    badge.setAttribute("aria-pressed", paused);
  }

  // 250 ms after the last change, 2 s after the first at most.
  function change() {
    const now = Date.now();
    first ??= now;
    clearTimeout(timer);
    timer = setTimeout(() => {
      first = undefined;
      if (paused || document.hidden) return;
      // What is typed stays.
      const held = document.querySelector("#send textarea")?.value;
      badge.textContent = held ? "Held: you type" : WORDS[state];
      if (held) change(); else body.dispatchEvent(new Event("rq:change"));
    }, Math.max(0, Math.min(250, first + 2000 - now)));
  }

  function close() {
    clearTimeout(retry);
    doubt = clearTimeout(doubt);
    source?.close();
    source = undefined;
  }

  function open() {
    close();
    if (paused || document.hidden) return;
    source = new EventSource(url);
    // Look again: what changed before was told to nobody.
    source.addEventListener("hello", () => { show("live"); change(); });
    source.addEventListener("resync", change);
    source.onmessage = change;
    source.onerror = () => {
      // It tries again, unless the answer was no stream.
      if (source.readyState !== EventSource.CLOSED) doubt ??= setTimeout(show, 2500, "offline");
      else { close(); poll(); }
    };
  }

  function poll() {
    retry = setTimeout(open, 10000);
    fetch(location.href, { method: "HEAD" }).then((answer) => {
      show(answer.redirected ? "out" : answer.ok ? "polling" : "offline");
      change();
    }, () => show("offline"));
  }

  badge.hidden = false;
  badge.addEventListener("click", () => {
    paused = !paused;
    if (paused) { close(); show("paused"); } else open();
  });
  // Between its events a run says nothing: data-poll is seconds.
  setInterval(() => {
    const every = state === "live" && document.querySelector("[data-poll]")?.dataset.poll;
    if (every && ++beats % every === 0) change();
  }, 1000);
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
})();
