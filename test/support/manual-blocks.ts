/** One fenced block of a page of the manual. CONTRIBUTING.md says what stands in its info string. */
export interface ManualBlock {
  /** `docs/tutorial.md:12`. */
  readonly place: string;
  readonly language: string;
  /** What follows the language; `until=x` as `until` and `x`, a single word as itself and ''. */
  readonly marks: ReadonlyMap<string, string>;
  readonly text: string;
}

/** The blocks of a page in order, also those in items of lists. */
export function blocksOf(page: string, markdown: string): ManualBlock[] {
  const blocks: ManualBlock[] = [];
  const lines = markdown.split('\n');
  for (let at = 0; at < lines.length; at += 1) {
    const [, indent = '', info] = /^( *)```(\S.*)?$/.exec(lines[at] ?? '') ?? [];
    if (info === undefined) {
      if (/^ *```$/.test(lines[at] ?? ''))
        throw new Error(`${page}:${at + 1}: a block says what language it is in`);
      continue;
    }
    const end = lines.indexOf(`${indent}\`\`\``, at);
    if (end === -1) throw new Error(`${page}:${at + 1}: this block has no end`);
    const [language = '', ...words] = info.split(' ');
    const text = lines
      .slice(at + 1, end)
      .map((line) => line.slice(indent.length))
      .join('\n');
    const marks = new Map(
      words.map((word) => {
        const equals = word.indexOf('=');
        return equals === -1 ? [word, ''] : [word.slice(0, equals), word.slice(equals + 1)];
      }),
    );
    blocks.push({ place: `${page}:${at + 1}`, language, marks, text });
    at = end;
  }
  return blocks;
}

/** Commands of a shell session one by one, as a user enters them: with their continued lines and here-documents. */
export function commandsOf(text: string): string[] {
  const commands: string[] = [];
  let command = '';
  let awaited: string | undefined;
  for (const line of text.split('\n')) {
    command += command === '' ? line : `\n${line}`;
    if (awaited !== undefined) {
      if (line !== awaited) continue;
      awaited = undefined;
    } else {
      awaited = /<<-?\s*['"]?(\w+)['"]?/.exec(line)?.[1];
      if (awaited !== undefined || line.endsWith('\\') || hasOpenQuote(command)) continue;
    }
    if (command.trim() !== '' && !/^\s*#/.test(command)) commands.push(command);
    command = '';
  }
  if (command !== '') throw new Error(`this command has no end: ${command}`);
  return commands;
}

function hasOpenQuote(command: string): boolean {
  const rest = command.replaceAll(/\\./g, '').replaceAll(/'[^']*'|"[^"]*"/g, '');
  return /['"]/.test(rest);
}

/** What a page says is printed: `…` stands for anything on a line, alone on its line for any lines; spaces for any spaces. */
export function outputPattern(text: string): RegExp {
  const lines = text
    .trim()
    .split('\n')
    .map((line) => {
      // Whole lines, and a last one without an end: a line that could be split in two ways would take for ever.
      if (line.trim() === '…') return '(?:.*\\n)*?(?:.+$)?';
      const parts = line.trim().split(/\s*…\s*/);
      const escaped = parts.map((part) =>
        part
          .split(/\s+/)
          .map((word) => RegExp.escape(word))
          .join('\\s+'),
      );
      return `\\s*${escaped.join('.*?')}\\s*\\n?`;
    });
  return new RegExp(`^${lines.join('')}$`);
}
