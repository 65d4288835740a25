/** Code pages by number (cp932, ms932, windows-932, ibm932) that the Encoding Standard knows by another name only. */
const codePages: Readonly<Record<string, string>> = {
  932: 'shift_jis',
  936: 'gbk',
  949: 'euc-kr',
  950: 'big5',
};

/**
 * The beginning of a text attachment, decoded from its charset. Half a character at the end is left out, and a byte that
 * is no character becomes U+FFFD.
 */
export function attachmentText(bytes: Uint8Array, charset: string | null): string {
  return decoderOf(charsetByMark(bytes) ?? charset ?? 'utf-8').decode(bytes, { stream: true });
}

/** A byte order mark outweighs the header, as in the Encoding Standard; files saved by spreadsheets often have nothing else. */
function charsetByMark([first, second, third]: Uint8Array): string | undefined {
  if (first === 0xfe && second === 0xff) return 'utf-16be';
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  if (first === 0xef && second === 0xbb && third === 0xbf) return 'utf-8';
  return undefined;
}

/** An unknown charset is read as windows-1252, as in the body of a mail. */
function decoderOf(charset: string): TextDecoder {
  const codePage = /^(?:cp|ms|windows-?|ibm)(\d+)$/i.exec(charset)?.[1] ?? '';
  for (const label of [charset, codePages[codePage]]) {
    try {
      if (label !== undefined) return new TextDecoder(label);
    } catch {
      // The next label is tried.
    }
  }
  return new TextDecoder('windows-1252');
}
