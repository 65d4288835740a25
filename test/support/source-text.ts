/**
 * TypeScript text as the architecture tests look at it: comments and the contents of template strings are blanked
 * (both may hold example code), everything else keeps its place, so that line numbers stay right.
 */
export function blankCommentsAndTemplates(text: string): string {
  const out = [...text];
  const blank = (from: number, to: number): void => {
    for (let i = from; i < to && i < out.length; i += 1) if (out[i] !== '\n') out[i] = ' ';
  };
  // Each entry is the depth of braces inside one `${…}` of a template string we are in.
  const templates: number[] = [];
  let i = 0;
  while (i < out.length) {
    const c = out[i];
    const next = out[i + 1];
    if (c === '/' && next === '/') {
      const end = indexOrEnd(out, '\n', i);
      blank(i, end);
      i = end;
    } else if (c === '/' && next === '*') {
      let end = i + 2;
      while (end < out.length && !(out[end] === '*' && out[end + 1] === '/')) end += 1;
      blank(i, end + 2);
      i = end + 2;
    } else if (c === "'" || c === '"') {
      i = endOfQuoted(out, i, c) + 1;
    } else if (c === '/' && regexMayStart(out, i)) {
      const end = endOfRegex(out, i);
      blank(i + 1, end);
      i = end + 1;
    } else if (c === '`' || (c === '}' && templates.at(-1) === 0)) {
      if (c === '}') templates.pop();
      let end = i + 1;
      while (end < out.length && out[end] !== '`' && !(out[end] === '$' && out[end + 1] === '{')) {
        end += out[end] === '\\' ? 2 : 1;
      }
      blank(i + 1, end);
      if (out[end] === '$') {
        templates.push(0);
        i = end + 2;
      } else {
        i = end + 1;
      }
    } else {
      const depth = templates.at(-1);
      if (depth !== undefined && c === '{') templates[templates.length - 1] = depth + 1;
      if (depth !== undefined && c === '}') templates[templates.length - 1] = depth - 1;
      i += 1;
    }
  }
  return out.join('');
}

/** Every module a file names: `import`, `export … from`, `import type`, `import()`, in type positions too. */
export function importedSpecifiers(code: string): string[] {
  const found: string[] = [];
  for (const pattern of [
    /^\s*import\s+'([^']+)'/gm,
    /^\s*(?:import|export)\b[^'";]*?\bfrom\s+'([^']+)'/gm,
    /\bimport\(\s*'([^']+)'\s*[,)]/g,
  ]) {
    for (const match of code.matchAll(pattern)) if (match[1] !== undefined) found.push(match[1]);
  }
  return found;
}

/** 1-based, of the character at `index`. */
export function lineOf(text: string, index: number): number {
  return text.slice(0, index).split('\n').length;
}

function indexOrEnd(out: string[], wanted: string, from: number): number {
  const index = out.indexOf(wanted, from);
  return index === -1 ? out.length : index;
}

function endOfQuoted(out: string[], start: number, quote: string): number {
  let i = start + 1;
  while (i < out.length && out[i] !== quote && out[i] !== '\n') i += out[i] === '\\' ? 2 : 1;
  return i;
}

/** A slash divides after a value and starts a regular expression after anything else. */
function regexMayStart(out: string[], at: number): boolean {
  let i = at - 1;
  while (i >= 0 && /\s/.test(out[i] ?? '')) i -= 1;
  if (i < 0) return true;
  if (!/[\w$)\]}'"`]/.test(out[i] ?? '')) return true;
  return /(?:^|\W)(?:return|typeof|case|in|of|await|yield)$/.test(
    out.slice(Math.max(0, i - 10), i + 1).join(''),
  );
}

function endOfRegex(out: string[], start: number): number {
  let inClass = false;
  let i = start + 1;
  while (i < out.length && out[i] !== '\n') {
    const c = out[i];
    if (c === '\\') i += 1;
    else if (c === '[') inClass = true;
    else if (c === ']') inClass = false;
    else if (c === '/' && !inClass) return i;
    i += 1;
  }
  return i;
}
