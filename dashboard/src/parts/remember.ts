/** Small choices of the user, kept by the browser. Never credentials. */
export type Choice = 'theme' | 'owner' | 'signed-in';

export function remembered(choice: Choice): string | undefined {
  try {
    return localStorage.getItem(`millrace.${choice}`) ?? undefined;
  } catch {
    return undefined;
  }
}

export function remember(choice: Choice, value: string | undefined): void {
  try {
    if (value === undefined) localStorage.removeItem(`millrace.${choice}`);
    else localStorage.setItem(`millrace.${choice}`, value);
  } catch {
    // Storage is switched off: then it holds until the page is left.
  }
}

/** Deletes what this tab kept of the user's work, such as drafts. */
export function forgetWork(): void {
  try {
    sessionStorage.clear();
  } catch {
    // Storage is switched off: then nothing was kept.
  }
}

/** Calls the listener when another tab forgets this choice. Returns a function that stops listening. */
export function forgotten(choice: Choice, listener: () => void): () => void {
  const look = ({ key, newValue }: StorageEvent) => {
    if (key === `millrace.${choice}` && newValue === null) listener();
  };
  window.addEventListener('storage', look);
  return () => window.removeEventListener('storage', look);
}
