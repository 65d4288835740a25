/** A stored file: bodies and attachments set aside (with an end), and files of file stores (without). */
export interface FileTable {
  id: string;
  owner_id: string;
  /** The folder of the file: `upload`, `files` or the id of a stash. */
  folder: string;
  /** Unique in its folder, among complete files. */
  path: string;
  content_type: string;
  /** Bytes stored so far. */
  size: number;
  /** Hex SHA-256 of the content; '' while chunks come in. */
  sha256: string;
  /** 0 while chunks come in, and once it was replaced or deleted: look-ups by path do not find it. */
  complete: number;
  /** From then on it is gone, and its rows are removed; null: never. Of an unfinished upload: unless more comes in. */
  expires_at_ms: number | null;
  created_at_ms: number;
  updated_at_ms: number;
  /** `store`: in chunks; `s3`: in objects of the bucket. */
  content_in: 'store' | 's3';
}

/** A bucket, with a prefix, that this instance keeps files in. */
export interface FileBucketTable {
  /** `<bucket>/<prefix>`. */
  bucket: string;
  /** What the object that marks the bucket as that of this instance says. */
  claim: string;
  created_at_ms: number;
  /** When it was last looked through for objects without a file. */
  swept_at_ms: number;
}

/** All chunks of a file but the last have the same size (files/file-chunks.ts). */
export interface FileChunkTable {
  file_id: string;
  /** From 0. */
  number: number;
  owner_id: string;
  bytes: Uint8Array;
}
