import assert from 'node:assert/strict';
import type { HostCallFunction } from '#runner/sandbox/host-calls.ts';

interface Held {
  body: Buffer;
  type: unknown;
  etag: number;
}

/** Answers asks of kind `file` as the service does, from memory, with pages of two. For tests of what code sees of files. */
export class FakeFiles {
  readonly folders = new Map<string, Map<string, Held>>();
  readonly asked: Record<string, unknown>[] = [];
  readonly #uploads = new Map<string, { pieces: Buffer[]; type: unknown; path: string }>();
  largestAppend = 0;
  #etags = 0;

  folder(name: unknown): Map<string, Held> {
    const folder = this.folders.get(String(name)) ?? new Map<string, Held>();
    this.folders.set(String(name), folder);
    return folder;
  }

  put(folder: string, path: string, body: Buffer | string, type: unknown = undefined): void {
    this.#etags += 1;
    this.folder(folder).set(path, { body: Buffer.from(body), type, etag: this.#etags });
  }

  readonly hostCall: HostCallFunction = async (kind, given, body) => {
    assert.equal(kind, 'file');
    const header = given as Record<string, unknown>;
    this.asked.push(header);
    await Promise.resolve();
    const folder = this.folder(header.folder);
    const file = folder.get(String(header.path));
    const none = Buffer.alloc(0);
    switch (header.op) {
      case 'stat':
        return {
          header: { exists: file !== undefined, size: file?.body.length, etag: file?.etag },
          body: none,
        };
      case 'read': {
        const offset = Number(header.offset);
        assert.ok(Number(header.length) <= 1024 * 1024);
        const piece = file?.body.subarray(offset, offset + Number(header.length)) ?? none;
        return { header: { size: file?.body.length, etag: file?.etag }, body: piece };
      }
      case 'begin': {
        const upload = `up_${this.#uploads.size}`;
        this.#uploads.set(upload, { pieces: [], type: header.content_type, path: String(header.path) });
        return { header: { upload }, body: none };
      }
      case 'append': {
        const piece = Buffer.from(body as Uint8Array);
        this.largestAppend = Math.max(this.largestAppend, piece.length);
        this.#uploads.get(String(header.upload))?.pieces.push(piece);
        return { header: {}, body: none };
      }
      case 'finish': {
        const upload = this.#uploads.get(String(header.upload));
        assert.ok(upload !== undefined);
        this.put(String(header.folder), upload.path, Buffer.concat(upload.pieces), upload.type);
        return { header: {}, body: none };
      }
      case 'delete':
        return { header: { deleted: folder.delete(String(header.path)) }, body: none };
      case 'list': {
        const paths = [...folder.keys()]
          .sort()
          .filter(
            (path) => path.startsWith(String(header.prefix ?? '')) && path > String(header.after ?? ''),
          );
        const entries = paths.slice(0, 2).map((path) => ({
          path,
          size: folder.get(path)?.body.length,
          updated_at_ms: 1_700_000_000_000,
        }));
        return { header: { entries, ...(paths.length > 2 ? { next: paths[1] } : {}) }, body: none };
      }
      case 'url':
        return { header: { url: `https://x.example/${header.path}` }, body: none };
      default:
        throw new Error(`no such operation: ${String(header.op)}`);
    }
  };
}
