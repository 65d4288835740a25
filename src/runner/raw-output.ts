import type { Launched } from './launcher.ts';

const stderrTailCharacters = 4096;

/** The bytes that a process writes to its stdout and stderr. Logs of user code come as frames, so these are Node's own words, or an attack. */
export class RawOutput {
  /** The last characters of stderr, which help to find the reason of a failed start. */
  stderrTail = '';
  #bytes = 0;
  readonly #bytesMax: number;
  readonly #onTooMuch: () => void;

  constructor(
    { stdout, stderr }: Pick<Launched['streams'], 'stdout' | 'stderr'>,
    options: { bytesMax: number; onTooMuch: () => void },
  ) {
    this.#bytesMax = options.bytesMax;
    this.#onTooMuch = options.onTooMuch;
    stdout.on('data', (chunk: Buffer) => this.#count(chunk));
    stderr.on('data', (chunk: Buffer) => {
      this.stderrTail = (this.stderrTail + chunk.toString('latin1')).slice(-stderrTailCharacters);
      this.#count(chunk);
    });
  }

  /** True when V8 or Node has written that the process had no memory left. */
  get saysOutOfMemory(): boolean {
    return /out of memory|Allocation failed|OOM/i.test(this.stderrTail);
  }

  #count({ length }: Buffer): void {
    this.#bytes += length;
    if (this.#bytes > this.#bytesMax) this.#onTooMuch();
  }
}
