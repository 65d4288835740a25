/** Bytes in a JSON message or a column of text: as text, or in base64 when they are not text. */
export interface FileContent {
  text: string;
  encoding?: 'base64';
}

/** The text that bytes are, or null for what is no text. */
export function textOf(bytes: Uint8Array): string | null {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

export function contentOf(bytes: Buffer): FileContent {
  const text = textOf(bytes);
  return text === null ? { text: bytes.toString('base64'), encoding: 'base64' } : { text };
}

export function bytesOf({ text, encoding }: FileContent): Buffer {
  return Buffer.from(text, encoding ?? 'utf8');
}
