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

/**
 * True when the objects of a JSON text have more members than `max`, all together. Each name is kept by itself, so parsing costs many times as
 * much as for other texts of the same size. The check is one pass over the text, which may be malformed.
 */
export function hasMoreMembersThan(json: string, max: number): boolean {
  // A member is five characters or more: `"":0,`.
  if (json.length < max * 5) return false;
  let members = 0;
  for (let at = 0; at < json.length; at += 1) {
    const code = json.charCodeAt(at);
    if (code === 0x22) at = endOfString(json, at);
    else if (code === 0x3a) {
      members += 1;
      if (members > max) return true;
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
