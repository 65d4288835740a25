import type { ReadStream, WriteStream } from 'node:tty';
import { styleText } from 'node:util';
import { type Column, tableLines } from './table.ts';
import { visible, visibleJson, visibleLines } from './visible-text.ts';

type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** A terminal, or a file or pipe, which has no columns. */
type Output = NodeJS.WritableStream & Partial<Pick<WriteStream, 'isTTY' | 'columns'>>;

export interface TerminalStreams {
  stdin: NodeJS.ReadableStream & Partial<Pick<ReadStream, 'isTTY'>>;
  stdout: Output;
  stderr: Output;
}

/** Standard output for answers and standard error for everything else, and what a terminal can show. */
export class Terminal {
  readonly streams: TerminalStreams;
  /** A user can be asked: false where input or questions would go to a file or a pipe. */
  readonly isInteractive: boolean;
  readonly #environment: Readonly<Record<string, string | undefined>>;
  #hasStatus = false;

  constructor(streams: TerminalStreams, environment: Readonly<Record<string, string | undefined>>) {
    this.streams = streams;
    this.#environment = environment;
    this.isInteractive = streams.stdin.isTTY === true && streams.stderr.isTTY === true;
  }

  /** Columns that a table may take; without a terminal nothing is cut, unless COLUMNS sets the width. */
  get width(): number {
    const { columns, isTTY } = this.streams.stdout;
    if (isTTY === true && columns !== undefined && columns > 0) return columns;
    const given = Number(this.#environment.COLUMNS);
    return Number.isInteger(given) && given > 0 ? given : Number.POSITIVE_INFINITY;
  }

  get isOutputTerminal(): boolean {
    return this.streams.stdout.isTTY === true;
  }

  /** One line or several of an answer; the text must have been made visible. */
  print(text: string): void {
    this.#clearStatus();
    this.streams.stdout.write(`${text}\n`);
  }

  printBytes(bytes: Uint8Array): void {
    this.#clearStatus();
    this.streams.stdout.write(bytes);
  }

  /** For machines. One line where several values follow each other. */
  printJson(value: unknown, indent = 2): void {
    this.print(visibleJson(value, indent));
  }

  printTable(columns: readonly Column[], rows: readonly (readonly string[])[]): void {
    const [titles = '', ...lines] = tableLines(columns, rows, this.width);
    this.print([this.style('bold', titles), ...lines].join('\n'));
  }

  /** Every field of an object, one below the other. */
  printFields(fields: readonly (readonly [name: string, value: unknown])[]): void {
    const nameWidth = Math.max(...fields.map(([name]) => name.length), 0);
    for (const [name, value] of fields) {
      const lines = fieldText(value).split('\n');
      const shown = lines
        .map((line, at) => (at === 0 ? line : `${' '.repeat(nameWidth + 2)}${line}`))
        .join('\n');
      this.print(`${this.style('bold', visible(name).padEnd(nameWidth))}  ${shown}`);
    }
  }

  /** What happens and what to do next; never part of the answer. */
  note(text: string): void {
    this.#clearStatus();
    this.streams.stderr.write(`${visibleLines(text)}\n`);
  }

  problem(text: string): void {
    this.#clearStatus();
    const shown = visibleLines(text);
    this.streams.stderr.write(
      `${this.#isColoured(this.streams.stderr) ? styleText('red', shown, { validateStream: false }) : shown}\n`,
    );
  }

  /** The progress of long work: one line that is written over, and only at a terminal. */
  status(text: string): void {
    if (this.streams.stderr.isTTY !== true) return;
    this.streams.stderr.write(`\r\u001b[K${visible(text)}`);
    this.#hasStatus = true;
  }

  endStatus(): void {
    this.#clearStatus();
  }

  /** Colour for standard output. */
  style(style: Style, text: string): string {
    return this.#isColoured(this.streams.stdout) ? styleText(style, text, { validateStream: false }) : text;
  }

  #isColoured(stream: Output): boolean {
    const { NO_COLOR = '', TERM } = this.#environment;
    return stream.isTTY === true && NO_COLOR === '' && TERM !== 'dumb';
  }

  #clearStatus(): void {
    if (!this.#hasStatus) return;
    this.#hasStatus = false;
    this.streams.stderr.write('\r\u001b[K');
  }
}

function fieldText(value: unknown): string {
  if (value === null || value === undefined) return '-';
  if (typeof value === 'string') return visibleLines(value);
  return visibleJson(value);
}
