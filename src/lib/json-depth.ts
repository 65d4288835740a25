/**
 * True when brackets of a JSON text are nested deeper than `max`. Code that walks values recursively calls itself for each
 * level, and runs out of stack. The check is one pass over the text, which may be malformed.
 */
export function isDeeperThan(json: string, max: number): boolean {
  // Brackets that are not closed again take a character each.
  if (json.length <= max) return false;
  let depth = 0;
  for (let at = 0; at < json.length; at += 1) {
    switch (json.charCodeAt(at)) {
      case 0x22:
        at = endOfString(json, at);
        break;
      case 0x5b:
      case 0x7b:
        depth += 1;
        if (depth > max) return true;
        break;
      case 0x5d:
      case 0x7d:
        depth -= 1;
    }
  }
  return false;
}

/** Index of the quote that ends the string which begins at `start`. */
function endOfString(json: string, start: number): number {
  for (let end = json.indexOf('"', start + 1); end !== -1; end = json.indexOf('"', end + 1)) {
    let slash = end;
    while (json.charCodeAt(slash - 1) === 0x5c) slash -= 1;
    if ((end - slash) % 2 === 0) return end;
  }
  return json.length;
}
