/**
 * A text as far as `charactersMax` characters, with "…" where the rest was. By that mark the service finds a secret that was cut
 * (`vault/redact.ts`), so no text with values of users may be cut without it.
 */
export function shortened(text: string, charactersMax: number): string {
  return text.length > charactersMax ? `${text.slice(0, charactersMax)}…` : text;
}
