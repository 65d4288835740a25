/** Ids or keys in one statement: what both stores take as parameters, with room to spare. */
const chunkMax = 400;

/** `values` in pieces that one statement takes. */
export function chunks<T>(values: readonly T[]): T[][] {
  const parts: T[][] = [];
  for (let at = 0; at < values.length; at += chunkMax) parts.push(values.slice(at, at + chunkMax));
  return parts;
}
