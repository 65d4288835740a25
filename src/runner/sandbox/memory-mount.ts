import {
  noPackageFile,
  type PackageFileList,
  packageFileBytesMax,
  packageFileRequestBytes,
} from '#runner/protocol.ts';
import { fileError } from './file-error.ts';
import { MemoryFiles } from './memory-files.ts';
import { fillGaps } from './memory-fs-gaps.ts';
import { jsonParse, readBytes, writeBytes } from './primordials.ts';
import { refuseModule } from './refused-functions.ts';

const packagesDescriptor = 5;

export interface MountedFiles {
  /** Folder behind literal `/tmp`. */
  tmp: string;
  /** Returns the folder of packages with this number. `list` comes with the first bundle that needs it. */
  packagesFolder(id: number, list: Buffer): string;
}

/**
 * Gives the process a file system in its own memory, where Node grants it no real file. The module that creates such file systems is made
 * unavailable afterwards, because code could get this one through it.
 */
export function mountMemoryFiles(bounds: { bytesMax: number; filesMax: number }): MountedFiles {
  const vfs = process.getBuiltinModule('node:vfs');
  const files = new MemoryFiles(bounds);
  const system = vfs.create(files, { emitExperimentalWarning: false });
  // Node's types lack this function.
  const mountPoint = (system as unknown as { mount(): string }).mount();
  files.mountedAt(mountPoint);
  fillGaps();
  refuseModule('node:vfs');
  return {
    tmp: `${mountPoint}/tmp`,
    packagesFolder: (id, list) => {
      const path = `/packages/${id}`;
      if (list.length > 0) {
        const found = jsonParse(list.toString('utf8')) as PackageFileList;
        files.addPackages(path, found, (n) => readPackageFile(id, n, found[n]));
      }
      return mountPoint + path;
    },
  };
}

const request = Buffer.alloc(packageFileRequestBytes);

/** Requests the file from the service and blocks until it comes, because `require` is synchronous. */
function readPackageFile(
  folder: number,
  n: number,
  [path, bytes]: PackageFileList[number] = ['', 0],
): Buffer {
  if (bytes > packageFileBytesMax) {
    const limit = `${packageFileBytesMax / 1024 / 1024} MB`;
    throw new Error(
      `the file ${path} is larger than ${limit}: its package needs real files, which the kernel level of the sandbox gives (the operator has to install bubblewrap)`,
    );
  }
  request.writeUInt32BE(folder, 0);
  request.writeUInt32BE(n, 4);
  writeBytes(packagesDescriptor, request);
  const length = readWhole(Buffer.alloc(4)).readUInt32BE(0);
  if (length === noPackageFile) throw fileError('EIO', 'open', path);
  return readWhole(Buffer.allocUnsafeSlow(length));
}

function readWhole(target: Buffer): Buffer {
  for (let at = 0; at < target.length; ) {
    const count = readBytes(packagesDescriptor, target, at, target.length - at, null);
    if (count === 0) throw fileError('EIO', 'read');
    at += count;
  }
  return target;
}
