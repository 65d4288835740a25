import truncatedWidth from 'fast-string-truncated-width';

/**
 * What a terminal would obey or hide instead of showing: C0 and C1 controls, DEL, marks and overrides of direction, zero-width
 * and line-separating characters, tags, and halves of surrogate pairs.
 */
const unsafe =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\p{Cs}\u{e0000}-\u{e007f}]/gu;

/** On one line, with everything in it to be seen: `\n`, `\x1b`, `\u202e`. */
export function visible(text: string): string {
  return text.replace(unsafe, escaped);
}

/** As `visible`, but line ends and tabs stay. */
export function visibleLines(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replace(unsafe, (character) =>
      character === '\n' || character === '\t' ? character : escaped(character),
    );
}

/** The same JSON, in which nothing is left that a terminal would obey. `indent` 0 is one line. */
export function visibleJson(value: unknown, indent = 2): string {
  const text = JSON.stringify(value, null, indent) ?? 'null';
  // Inside strings only: between them JSON has nothing but line ends that are unsafe.
  return text.replace(unsafe, (character) => {
    if (character === '\n') return character;
    return [...Array(character.length).keys()]
      .map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`)
      .join('');
  });
}

/** Columns of a terminal that a text without controls takes. */
export function widthOf(text: string): number {
  return truncatedWidth(text).width;
}

/** At most `columns` wide; … replaces what was cut. */
export function cut(text: string, columns: number): string {
  const { index, ellipsed, truncated } = truncatedWidth(text, {
    limit: columns,
    ellipsis: '…',
    ellipsisWidth: 1,
  });
  return truncated ? `${text.slice(0, index)}${ellipsed ? '…' : ''}` : text;
}

function escaped(character: string): string {
  if (character === '\n') return '\\n';
  if (character === '\r') return '\\r';
  if (character === '\t') return '\\t';
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, '0')}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, '0')}` : `\\u{${code.toString(16)}}`;
}
