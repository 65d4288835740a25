import { statSync } from 'node:fs';

/**
 * Checks that the files of an open SQLite store are still the ones at their paths. A connection continues to write to files that were
 * removed, moved or replaced, so that its commits succeed and are lost.
 *
 * JavaScript for the reason that `sqlite-thread.mjs` is.
 */
export class StoreFiles {
  /** @type {readonly { path: string, id: string | undefined }[]} */
  #files;

  /** @param {string} file of the database, which is open */
  constructor(file) {
    // Also the index of the log, by which processes that read (a backup) and the writer know of each other.
    this.#files = [file, `${file}-wal`, `${file}-shm`].map((path) => ({ path, id: undefined }));
    this.changed();
  }

  /**
   * The path whose file is not the one that was there when it was first seen; undefined: all are. Asked before and after each
   * commit, it costs about 60 microseconds of the 400 that a commit takes where a sync costs nothing.
   *
   * @returns {string | undefined}
   */
  changed() {
    for (const file of this.#files) {
      const found = statSync(file.path, { throwIfNoEntry: false });
      const id = found === undefined ? undefined : `${found.dev} ${found.ino}`;
      // The log appears with the first statement that needs it.
      file.id ??= id;
      if (file.id !== id) return file.path;
    }
    return undefined;
  }
}
