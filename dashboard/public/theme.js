// Before the first paint, so that a user who chose a theme does not see the other one flash by.
try {
  const chosen = localStorage.getItem('millrace.theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is switched off: then it is the system's theme.
}
