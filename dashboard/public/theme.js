// Before the first paint, so that nobody who chose a theme sees the other one flash by.
try {
  const chosen = localStorage.getItem('millrace.theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is switched off: then it is the system's theme.
}
