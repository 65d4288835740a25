import { fileError } from './file-error.ts';

/** Size of a page of a file. Only the last page may be smaller. */
const pageBytes = 64 * 1024;
/** Minimum size of a page. The size of a file is counted in whole pages, as a disk counts blocks. */
const pageBytesMin = 1024;

/** Limits for all files of one process together. */
export class FilesBudget {
  readonly bytesMax: number;
  readonly #filesMax: number;
  #bytes = 0;
  #files = 0;

  constructor(options: { bytesMax: number; filesMax: number }) {
    this.bytesMax = options.bytesMax;
    this.#filesMax = options.filesMax;
  }

  addBytes(bytes: number, syscall: string, path: string): void {
    if (this.#bytes + bytes > this.bytesMax) throw fileError('ENOSPC', syscall, path);
    this.#bytes += bytes;
  }

  removeBytes(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** Counts a new file, folder or link. */
  addFile(syscall: string, path: string): void {
    if (this.#files >= this.#filesMax) throw fileError('ENOSPC', syscall, path);
    this.#files += 1;
  }

  removeFile(): void {
    this.#files -= 1;
  }
}

/** The bytes of one file. A page that was never written uses no memory and reads as zeros. */
export class FileContent {
  readonly #budget: FilesBudget;
  readonly #pages: (Buffer | undefined)[] = [];
  #size = 0;
  #allocated = 0;

  constructor(budget: FilesBudget) {
    this.#budget = budget;
  }

  get size(): number {
    return this.#size;
  }

  /** Bytes of memory that the file uses. */
  get allocated(): number {
    return this.#allocated;
  }

  read(target: Uint8Array, position: number): number {
    const end = Math.min(this.#size, position + target.length);
    for (let at = position; at < end; ) {
      const within = at % pageBytes;
      const length = Math.min(pageBytes - within, end - at);
      const part = target.subarray(at - position, at - position + length);
      const page = this.#pages[(at - within) / pageBytes];
      const there = page?.subarray(within, within + length);
      part.fill(0, there?.length ?? 0);
      if (there !== undefined) part.set(there);
      at += length;
    }
    return Math.max(0, end - position);
  }

  /** Writes everything or, when there is not enough room, nothing. */
  write(source: Uint8Array, position: number, path: string): void {
    const end = position + source.length;
    this.#allocate(position, end, path);
    for (let at = position; at < end; ) {
      const within = at % pageBytes;
      const length = Math.min(pageBytes - within, end - at);
      this.#pages[(at - within) / pageBytes]?.set(
        source.subarray(at - position, at - position + length),
        within,
      );
      at += length;
    }
    this.#size = Math.max(this.#size, end);
  }

  truncate(size: number, path: string): void {
    if (size > this.#budget.bytesMax) throw fileError('EFBIG', 'ftruncate', path);
    if (size < this.#size) {
      const pages = Math.ceil(size / pageBytes);
      for (const page of this.#pages.splice(pages)) this.#free(page);
      if (size % pageBytes > 0) this.#pages[pages - 1]?.fill(0, size % pageBytes);
    }
    this.#size = size;
  }

  /** Frees the memory. */
  clear(): void {
    this.truncate(0, '');
  }

  #allocate(position: number, end: number, path: string): void {
    if (end > this.#budget.bytesMax) throw fileError('ENOSPC', 'write', path);
    const wanted: [number, number][] = [];
    let more = 0;
    for (let index = Math.floor(position / pageBytes); index * pageBytes < end; index += 1) {
      const bytes = pageBytesFor(Math.min(pageBytes, end - index * pageBytes));
      const existing = this.#pages[index]?.length ?? 0;
      if (bytes <= existing) continue;
      wanted.push([index, bytes]);
      more += bytes - existing;
    }
    this.#budget.addBytes(more, 'write', path);
    this.#allocated += more;
    for (const [index, bytes] of wanted) {
      const page = Buffer.alloc(bytes);
      this.#pages[index]?.copy(page);
      this.#pages[index] = page;
    }
  }

  #free(page: Buffer | undefined): void {
    if (page === undefined) return;
    this.#allocated -= page.length;
    this.#budget.removeBytes(page.length);
  }
}

function pageBytesFor(bytes: number): number {
  let size = pageBytesMin;
  while (size < bytes) size *= 2;
  return size;
}
