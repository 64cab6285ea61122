// Light, dark or the system's, kept in this browser. Loaded before the page is drawn, so that nothing flashes.
// What needs scripts, the search and the button, is shown from here.
(function () {
  var key = 'runnerq-docs-theme';
  var themes = ['system', 'light', 'dark'];
  var kept = 'system';
  try { kept = localStorage.getItem(key) || kept; } catch (denied) { /* cookies are off: the system's theme, then */ }
  function show(theme) {
    if (theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  }
  show(kept);
  document.addEventListener('DOMContentLoaded', function () {
    var button = document.getElementById('theme');
    button.hidden = false;
    document.getElementById('search').hidden = false;
    function name() { button.textContent = { system: 'Auto', light: 'Light', dark: 'Dark' }[kept]; }
    name();
    button.addEventListener('click', function () {
      kept = themes[(themes.indexOf(kept) + 1) % themes.length];
      try { localStorage.setItem(key, kept); } catch (denied) { /* for this page alone */ }
      show(kept);
      name();
    });
    // What is wider than the page is scrolled by keyboard, too.
    document.querySelectorAll('pre, table').forEach(function (wide) {
      if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
    });
    var query = document.getElementById('mkdocs-search-query');
    var results = document.getElementById('mkdocs-search-results');
    // MkDocs' script asks for nothing that was typed before the index was there.
    if (window.searchWorker) window.searchWorker.addEventListener('message', function (event) {
      if (event.data.allowSearch && query.value) window.doSearch();
    });
    document.addEventListener('keydown', function (event) {
      var typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
      if (event.key === '/' && !typing) { event.preventDefault(); query.focus(); }
      if (event.key === 'Escape') { results.replaceChildren(); query.blur(); }
    });
    document.addEventListener('click', function (event) {
      if (!event.target.closest('.search')) results.replaceChildren();
    });
  });
})();
