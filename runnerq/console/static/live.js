// One EventSource a visible tab, which has "rq:change" fired on <body>.
(() => {
  const body = document.body, url = body.dataset.stream, badge = document.getElementById("live");
  if (!url || !badge) return;
  const WORDS = { live: "Live", paused: "Paused", offline: "Offline", polling: "Every 10 s", out: "Signed out" };
  let source, retry, doubt, timer, first, state, paused = false, beats = 0;

  function show(next) {
    doubt = clearTimeout(doubt);
    state = badge.dataset.state = next;
    badge.textContent = WORDS[state];
    badge.ariaPressed = paused;
  }

  // 250 ms after the last, 2 s after the first.
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
    }, Math.min(250, first + 2000 - now));
  }

  function close() {
    clearTimeout(retry);
    doubt = clearTimeout(doubt);
    source?.close();
    source = undefined;
  }

  function open() {
    close();
    if (paused) show("paused");
    if (paused || document.hidden) return;
    source = new EventSource(url);
    // What changed before was told to nobody.
    source.addEventListener("hello", () => { show("live"); change(); });
    source.addEventListener("resync", change);
    source.onmessage = change;
    source.onerror = () => {
      // It tries again, unless the answer was no stream.
      if (source.readyState < EventSource.CLOSED) doubt ??= setTimeout(show, 2500, "offline");
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
    open();
  });
  const streams = () => source?.readyState === EventSource.OPEN;
  // Not all is an event: data-poll is seconds.
  setInterval(() => {
    const every = streams() && document.querySelector("[data-poll]")?.dataset.poll;
    if (every && ++beats % every === 0) change();
  }, 1000);
  // The stream goes on without a database; the page does not.
  body.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
    if (streams()) show(ctx.response.status < 400 ? "live" : "offline");
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
})();
