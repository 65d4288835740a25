/** A token of a JavaScript text without comments. `other` is what has no meaning here: numbers, patterns, templates. */
export interface Token {
  kind: 'word' | 'string' | 'punctuation' | 'other';
  /** For a string: its value. */
  text: string;
}

const wordPattern = /[\p{ID_Start}$_#][\p{ID_Continue}$\u200c\u200d]*/uy;
const numberPattern = /\d[\w.]*/y;
const stringPattern = /"(?:[^"\\\n]|\\[\s\S])*"|'(?:[^'\\\n]|\\[\s\S])*'/y;
const patternPattern = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/\w*/y;

/** Words before which a slash is a division are names; after these it begins a pattern. */
const wordsBeforePattern = new Set([
  ...['return', 'typeof', 'case', 'do', 'else', 'in', 'instanceof', 'new', 'of', 'void', 'delete', 'throw'],
  ...['await', 'yield', 'default'],
]);

/** After this many slashes that could have begun a pattern and did not, further ones count as divisions. */
const wrongGuessesMax = 100;

/** Tokens of a text that parses. Where a slash could be either, it guesses as most texts mean it. */
export function* tokensOf(text: string): Generator<Token> {
  let at = 0;
  let previous: Token | undefined;
  // Where a template continues after `${…}`: the depth of braces it began at.
  const templates: number[] = [];
  let depth = 0;
  // Each costs a look at the rest of its line, and lines may be as long as the text.
  let wrongGuesses = 0;
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(text)?.[0];
  };
  while (at < text.length) {
    const char = text[at] as string;
    if (/\s/.test(char)) {
      at += 1;
      continue;
    }
    let token: Token;
    let length = 1;
    const closesTemplate = char === '}' && templates.at(-1) === depth;
    if (char === '`' || closesTemplate) {
      if (closesTemplate) templates.pop();
      const end = endOfTemplate(text, at + 1);
      length = end.at - at;
      token = { kind: 'other', text: '`' };
      const whole = text.slice(at + 1, end.at - 1);
      if (end.opens) templates.push(depth);
      else if (char === '`' && !whole.includes('\\')) token = { kind: 'string', text: whole };
    } else if (char === '"' || char === "'") {
      const found = take(stringPattern) ?? char;
      length = found.length;
      token = { kind: 'string', text: stringValue(found) };
    } else if (char === '/' && wrongGuesses < wrongGuessesMax && startsPattern(previous)) {
      const found = take(patternPattern);
      if (found === undefined) wrongGuesses += 1;
      length = found?.length ?? 1;
      token = { kind: 'other', text: '/' };
    } else {
      const word = take(wordPattern);
      const number = word === undefined ? take(numberPattern) : undefined;
      length = word?.length ?? number?.length ?? 1;
      token =
        word !== undefined
          ? { kind: 'word', text: word }
          : { kind: number === undefined ? 'punctuation' : 'other', text: char };
      if (char === '{') depth += 1;
      if (char === '}') depth -= 1;
    }
    at += length;
    previous = token;
    yield token;
  }
}

function startsPattern(previous: Token | undefined): boolean {
  if (previous === undefined) return true;
  if (previous.kind === 'word') return wordsBeforePattern.has(previous.text);
  return previous.kind === 'punctuation' && !')]}'.includes(previous.text);
}

/** Behind the end of a piece of a template: its last character, or the brace of the expression that follows. */
function endOfTemplate(text: string, from: number): { at: number; opens: boolean } {
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === '`') return { at: at + 1, opens: false };
    else if (text[at] === '$' && text[at + 1] === '{') return { at: at + 2, opens: true };
  }
  return { at: text.length, opens: false };
}

const escapes: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  v: '\v',
  0: '\0',
};

function stringValue(literal: string): string {
  return literal
    .slice(1, -1)
    .replaceAll(
      /\\(?:u\{([0-9a-f]+)\}|u([0-9a-f]{4})|x([0-9a-f]{2})|([\s\S]))/gi,
      (_, long, four, two, char) => {
        const code = long ?? four ?? two;
        if (code !== undefined) return String.fromCodePoint(Number.parseInt(code, 16));
        return char === '\n' ? '' : (escapes[char] ?? char);
      },
    );
}
