import type { Store } from '#storage/store.ts';
import { FileContents, RowContent } from '#user-data/files/file-content.ts';

/** A store with the content of files in it, as they are kept where nothing else is set. */
export function inStore(store: Store): { store: Store; contents: FileContents } {
  return { store, contents: new FileContents(new RowContent(store)) };
}
