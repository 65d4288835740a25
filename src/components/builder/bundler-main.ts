import { createWriteStream } from 'node:fs';
import { stop } from 'esbuild';
import type { BuildProblem, BundleRequest, BundlerInput, BundlerOutput, OwnFile } from './build-messages.ts';
import { BuildFailure } from './build-run.ts';
import { bundle } from './bundle-component.ts';
import { readMessages, writeMessage } from './message-lines.ts';
import { ProvidedTexts } from './provided-texts.ts';

/**
 * The bundler process. It may read the folder of builds, the project's node_modules and the provided modules, may write
 * nothing and connect nowhere; it may start one program, which is esbuild's. It builds one component at a time and ends
 * when its stdin does.
 */
const output = createWriteStream('', { fd: 3 });
const providedTexts = new ProvidedTexts();
const waiting = new Map<number, (answer: { file: OwnFile | null; problem?: BuildProblem }) => void>();
let lookups = 0;

readMessages<BundlerInput>(process.stdin, (message) => {
  if (message.type === 'bundle') void answer(message);
  else waiting.get(message.lookup)?.(message);
});
process.stdin.on('close', () => {
  output.end();
  void stop();
});

async function answer(request: BundleRequest): Promise<void> {
  try {
    send(await bundle(request, lookUp, providedTexts));
  } catch (error) {
    const problem: BuildProblem =
      error instanceof BuildFailure
        ? error.problem
        : {
            kind: 'unavailable',
            code: 'build_failed',
            message: 'the component could not be built',
            details: {},
          };
    if (!(error instanceof BuildFailure)) console.error(error);
    send({ type: 'failed', problem });
  }
}

async function lookUp(importer: string, specifier: string): Promise<OwnFile | null> {
  lookups += 1;
  const lookup = lookups;
  const { promise, resolve } = Promise.withResolvers<{ file: OwnFile | null; problem?: BuildProblem }>();
  waiting.set(lookup, resolve);
  send({ type: 'lookup', lookup, importer, specifier });
  const { file, problem } = await promise;
  waiting.delete(lookup);
  if (problem !== undefined) throw new BuildFailure(problem);
  return file;
}

function send(message: BundlerOutput): void {
  writeMessage(output, message);
}
