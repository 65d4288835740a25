/** The frames of Git's protocol: a length in four hex digits, and the rest. Lengths below 4 are marks. */
export type Packet = Buffer | 'flush' | 'delimiter';

const packetBytesMax = 65_520;

/** What to do where a server cannot be used: the service reads clones that another Git client has made. */
export const cloneAdvice = 'clone it on the machine of the service, and give the path of the clone';
const noGit = 'the server does not speak the protocol of Git: give the URL that git clone takes';

export class PacketReader {
  readonly #onPacket: (packet: Packet) => void;
  #left: Buffer = Buffer.alloc(0);

  constructor(onPacket: (packet: Packet) => void) {
    this.#onPacket = onPacket;
  }

  /** Throws GitProtocolError for what is no frame. */
  take(chunk: Buffer): void {
    let bytes = this.#left.length === 0 ? chunk : Buffer.concat([this.#left, chunk]);
    while (bytes.length >= 4) {
      const head = bytes.toString('latin1', 0, 4);
      if (!/^[0-9a-f]{4}$/i.test(head)) throw new GitProtocolError(noGit);
      const length = Number.parseInt(head, 16);
      if (length === 3 || length > packetBytesMax) throw new GitProtocolError(noGit);
      if (length < 4) {
        bytes = bytes.subarray(4);
        // 2 ends a response, as the end of the body does.
        if (length === 0) this.#onPacket('flush');
        else if (length === 1) this.#onPacket('delimiter');
        continue;
      }
      if (bytes.length < length) break;
      this.#onPacket(bytes.subarray(4, length));
      bytes = bytes.subarray(length);
    }
    this.#left = Buffer.from(bytes);
  }

  /** Throws when a frame has begun and not ended. */
  end(): void {
    if (this.#left.length > 0) throw new GitProtocolError('the response of the server ended early');
  }
}

export class GitProtocolError extends Error {
  override name = 'GitProtocolError';
}

export function packets(...parts: readonly (string | 'flush' | 'delimiter')[]): string {
  return parts
    .map((part) => {
      if (part === 'flush') return '0000';
      if (part === 'delimiter') return '0001';
      return `${(Buffer.byteLength(part) + 5).toString(16).padStart(4, '0')}${part}\n`;
    })
    .join('');
}

export interface Capabilities {
  /** The server leaves out file contents. */
  hasFilter: boolean;
  hasShallow: boolean;
}

/** What a server says first. Throws GitProtocolError for one that does not speak version 2. */
export function readCapabilities(body: Buffer): Capabilities {
  const lines: string[] = [];
  const reader = new PacketReader((packet) => {
    if (typeof packet !== 'string') lines.push(packet.toString('utf8').trimEnd());
  });
  reader.take(body);
  reader.end();
  if (!lines.includes('version 2'))
    throw new GitProtocolError(`the server does not speak version 2 of the protocol of Git: ${cloneAdvice}`);
  if (lines.some((line) => /^object-format=(?!sha1$)/.test(line)))
    throw new GitProtocolError('the repository uses object names other than SHA-1, which are not supported');
  const features =
    lines
      .find((line) => line.startsWith('fetch='))
      ?.slice('fetch='.length)
      .split(' ') ?? [];
  return { hasFilter: features.includes('filter'), hasShallow: features.includes('shallow') };
}
