import { isDeeperThan } from '#lib/json-depth.ts';

/** No answer that is asked for is nested so deep. To parse a megabyte of brackets alone keeps the service from all else for a tenth of a second. */
const depthMax = 100;
/** Maximum of brackets and commas. */
const partsMax = 50_000;

/** The value of an answer in JSON. Throws SyntaxError for anything else, and for what is made to be parsed for long. */
export function parseAnswer(body: Buffer): unknown {
  const text = body.toString('utf8');
  if (isDeeperThan(text, depthMax) || hasMorePartsThan(text, partsMax))
    throw new SyntaxError('the answer has too many values, or too many within one another');
  return JSON.parse(text);
}

function hasMorePartsThan(text: string, max: number): boolean {
  if (text.length <= max) return false;
  let parts = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x2c || code === 0x5b || code === 0x7b) parts += 1;
    if (parts > max) return true;
  }
  return false;
}
