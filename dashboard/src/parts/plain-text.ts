/**
 * Characters that do something instead of being seen: controls (escape sequences of terminals begin with one), marks that
 * turn the direction of what follows, and those without width. Line breaks and tabs stay.
 */
const unseen =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Foreign text as it is shown: what cannot be seen is written out, such as ⟨U+202E⟩ or \x1b. React makes sure that it stays text. */
export function visible(text: string): string {
  return text.replace(unseen, (character) => {
    const code = character.charCodeAt(0);
    if (character === '\r') return '';
    if (code < 0x20) return `\\x${code.toString(16).padStart(2, '0')}`;
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
  });
}

/** At most `max` characters, with a mark where something was left out. */
export function shortened(text: string, max: number): string {
  return text.length > max ? `${text.slice(0, max)}…` : text;
}

/** A value in one line, for lists. */
export function oneLine(value: unknown, max: number): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
  return visible(shortened(text.slice(0, max * 2).replaceAll(/\s+/g, ' '), max));
}
