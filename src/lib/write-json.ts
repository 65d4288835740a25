import { randomUUID } from 'node:crypto';

/** JSON texts under way, in the order in which `JSON.stringify` meets them. It is synchronous, so one list is enough. */
let met: string[] = [];
/** Stands for such a text. Not guessable, so that no value that a caller sent is taken for it. */
const marker = randomUUID();

/** A value that is JSON text already. `writeJson` puts the text where the value stands, without parsing it. */
export class JsonText {
  readonly text: string;

  /** `text` is well-formed JSON. */
  constructor(text: string) {
    this.text = text;
  }

  toJSON(): string {
    met.push(this.text);
    return marker;
  }
}

/**
 * `JSON.stringify` for values with `JsonText` in them. Parsing and printing megabytes of stored JSON would hold up every other
 * request; the answer gets the stored text instead.
 */
export function writeJson(value: unknown): string {
  met = [];
  const frame = JSON.stringify(value);
  if (met.length === 0) return frame;
  const texts = met;
  met = [];
  return frame
    .split(`"${marker}"`)
    .map((part, index) => part + (texts[index] ?? ''))
    .join('');
}
