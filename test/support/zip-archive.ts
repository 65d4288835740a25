import { crc32, deflateRawSync } from 'node:zlib';

/** A file of an archive; what is given instead of its content makes archives that no archiver makes. */
export interface ZipEntry {
  path: string;
  content?: string;
  /** Type and permissions, as archivers on Unix write them. */
  mode?: number;
  encrypted?: boolean;
  /** Deflated bytes, with what the headers say of them. */
  raw?: Buffer;
  size?: number;
  crc?: number;
}

/** A ZIP archive of these files. */
export function makeZip(entries: readonly ZipEntry[]): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { path, content = '', mode = 0o100644, encrypted = false, ...given } of entries) {
    const bytes = Buffer.from(content);
    const packed = given.raw ?? deflateRawSync(bytes);
    const name = Buffer.from(path);
    const shared = Buffer.alloc(26);
    shared.writeUInt16LE(20, 0);
    // Names in UTF-8.
    shared.writeUInt16LE(0x800 | (encrypted ? 1 : 0), 2);
    shared.writeUInt16LE(8, 4);
    shared.writeUInt32LE(given.crc ?? crc32(bytes), 10);
    shared.writeUInt32LE(packed.length, 14);
    shared.writeUInt32LE(given.size ?? bytes.length, 18);
    shared.writeUInt16LE(name.length, 22);
    const local = Buffer.concat([Buffer.from('PK\u0003\u0004'), shared, name, packed]);
    const central = Buffer.alloc(14);
    central.writeUInt32LE((mode << 16) >>> 0, 6);
    central.writeUInt32LE(offset, 10);
    directory.push(
      Buffer.concat([Buffer.from('PK\u0001\u0002'), Buffer.from([20, 3]), shared, central, name]),
    );
    parts.push(local);
    offset += local.length;
  }
  const listed = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write('PK\u0005\u0006', 0, 'latin1');
  const count = Math.min(entries.length, 0xffff);
  end.writeUInt16LE(count, 8);
  end.writeUInt16LE(count, 10);
  end.writeUInt32LE(listed.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, listed, end]);
}
