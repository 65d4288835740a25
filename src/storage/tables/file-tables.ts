/** A stored file: bodies and attachments set aside (with an end), and files of file stores (without). */
export interface FileTable {
  id: string;
  owner_id: string;
  /** Whose folder it is in: `upload`, `files` or the id of a stash. */
  folder: string;
  /** Unique in its folder. */
  path: string;
  content_type: string;
  size: number;
  /** Hex SHA-256 of the content. */
  sha256: string;
  /** 0 while chunks come in: not there for readers. */
  complete: number;
  expires_at_ms: number | null;
  created_at_ms: number;
  updated_at_ms: number;
}

export interface FileChunkTable {
  file_id: string;
  number: number;
  owner_id: string;
  bytes: Uint8Array;
}
