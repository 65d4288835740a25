/** Small choices of a person, kept by the browser. Never anything that lets somebody in. */
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
