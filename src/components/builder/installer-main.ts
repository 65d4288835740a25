import { createWriteStream } from 'node:fs';
import type { FetchRequest, InstallerOutput, InstallRequest, PackageFile } from './build-messages.ts';
import { filesInParts } from './file-parts.ts';
import { allowedHosts, describeInstallError, InstallRefusal } from './install-rules.ts';
import { limitConnections, limitWrites } from './limit-builder.ts';
import { lineBytesMax, readMessages, writeMessage } from './message-lines.ts';
import { trustExtra } from './trust-extra.ts';

/**
 * The installer process: installs of one owner, or packages, one after the other; it ends when its stdin does. It may read
 * and write a folder of builds and npm's cache, connect to the registries of its first request, and start nothing. npm's code (a
 * quarter of a second, 250 MB) is loaded here and nowhere else.
 */
const answerFd = 3;
const relayDescriptor = 4;
/** Maximum characters of the files in one message. A single file may be longer. */
const partCharactersMax = 1024 * 1024;
const output = createWriteStream('', { fd: answerFd });
const boundWrites = limitWrites(answerFd);
let hasConnections = false;

readMessages<InstallRequest | FetchRequest>(process.stdin, (request) => void answer(request));
process.stdin.on('close', () => output.end());
/** Rejects with what npm's code throws beside its promises, such as for two dependencies that are no packages: nothing else would end the request. */
let beside = Promise.withResolvers<never>();
process.on('unhandledRejection', (reason) => beside.reject(reason));

async function answer(request: InstallRequest | FetchRequest): Promise<void> {
  let message: InstallerOutput;
  beside = Promise.withResolvers();
  beside.promise.catch(() => {});
  try {
    // For good: a later request with other registries is refused them.
    if (!hasConnections) {
      if (process.argv.includes('relayed')) await connectByService();
      limitConnections(allowedHosts(request.npm));
      trustExtra(request.npm);
    }
    hasConnections = true;
    const checkWrites = boundWrites(request);
    if (request.type === 'install') {
      const { installPackages } = await import('./install-packages.ts');
      const installed = await Promise.race([installPackages(request), beside.promise]);
      message = { type: 'installed', ...installed };
    } else {
      const { fetchPackage } = await import('./fetch-package.ts');
      const { files, ...fetched } = await Promise.race([fetchPackage(request), beside.promise]);
      for (const part of filesInParts(files, partCharactersMax)) sendFiles(part);
      message = { type: 'fetched', ...fetched };
    }
    checkWrites();
  } catch (error) {
    message = { type: 'failed', problem: describeInstallError(error, request) };
    if (message.problem.kind === 'unavailable') console.error(error);
  }
  writeMessage(output, message);
}

/** There is no network here: the service connects, to the hosts of the same request. */
async function connectByService(): Promise<void> {
  const { installEgressShim } = await import('#runner/sandbox/egress-shim.ts');
  installEgressShim(relayDescriptor, () => undefined);
}

/** A file of nothing but control characters is six times as long as JSON. */
function sendFiles(files: PackageFile[]): void {
  const message = { type: 'files', files } satisfies InstallerOutput;
  if (Buffer.byteLength(JSON.stringify(message)) >= lineBytesMax)
    throw new InstallRefusal('component_too_large', 'a file of the package is too large to be read', {});
  writeMessage(output, message);
}
