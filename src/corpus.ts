import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, homedir, tmpdir } from 'node:os';
import { extname, join, resolve } from 'node:path';
import { UsageError } from '#admin/admin-command-line.ts';
import { type CorpusRequest, corpusHelp, readCorpusRequest } from '#admin/corpus-command.ts';
import { type ComponentBuilder, createComponentBuilder } from '#components/build-component.ts';
import { defaultBuildLimits } from '#components/build-limits.ts';
import { BuilderWalls } from '#components/builder-walls.ts';
import { npmConfigWith, readNpmConfig } from '#components/npm-config.ts';
import { PackageFetcher } from '#components/package-fetcher.ts';
import { PackageFolders } from '#components/package-folders.ts';
import { readSettings, SettingsError } from '#config/read-settings.ts';
import { systemClock } from '#lib/clock.ts';
import { CallerError, toError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import { closedPolicy } from '#registry/closed-policy.ts';
import {
  type CorpusReport,
  makeReport,
  reportLines,
  reportMarkdown,
  reportValues,
} from '#registry/corpus-report.ts';
import { readPackageArgument } from '#registry/package-argument.ts';
import { type CheckedPackage, type CorpusProgress, runCorpus } from '#registry/run-corpus.ts';
import { createProcessRunner } from '#runner/process-runner.ts';
import { FolderLockedError, lockFolder } from '#storage/lock-folder.ts';

/** `npm run corpus -- …`: does every component of these packages work here? Exit codes: 0 yes, 1 no, 2 wrong command line. */

/** Options that take longer than users wait count as hanging. */
const callDeadlineMs = 10_000;
/** Between two lines of progress on a terminal. */
const progressEveryMs = 100;

try {
  const request = readCorpusRequest(process.argv.slice(2));
  if (request.help) process.stdout.write(corpusHelp);
  else process.exitCode = await run(request);
} catch (thrown) {
  const error = toError(thrown);
  const isForPeople = [UsageError, CallerError, SettingsError, FolderLockedError].some(
    (kind) => error instanceof kind,
  );
  process.stderr.write(`${isForPeople ? error.message : error.stack}\n`);
  if (error instanceof UsageError) process.stderr.write(`\n${corpusHelp}`);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}

async function run(request: CorpusRequest): Promise<number> {
  const environment = process.env;
  const settings = readSettings(environment);
  // npm changes to the project's folder, and says where it was called.
  const folder = environment.INIT_CWD ?? process.cwd();
  const { cacheFolder, leave } = await openCache(request.cache, folder, settings.data);
  try {
    const npmConfig = await readNpmConfig(environment, homedir(), settings.extraCa);
    const walls = new BuilderWalls();
    const shared = { cacheFolder, registry: settings.npmRegistry, npmConfig, logger: silentLogger, walls };
    const fetcher = new PackageFetcher(shared);
    const packageFolders = new PackageFolders({
      folder: join(cacheFolder, 'packages'),
      cache: join(cacheFolder, 'npm'),
      npm: npmConfigWith(npmConfig, settings.npmRegistry),
      limits: defaultBuildLimits,
      ...{ logger: silentLogger, walls },
    });
    const policy = closedPolicy();
    const runner = await createProcessRunner({
      ...{ level: settings.sandbox, policy, folder: cacheFolder, packages: packageFolders },
      ...{ logger: silentLogger, clock: systemClock, addons: settings.nativeAddons },
      limits: { prewarmed: 1, refillIntervalMs: 0 },
    });
    walls.raise(runner.kernel);
    const builder = createComponentBuilder({
      ...shared,
      ...{ packages: packageFolders, addons: runner.stats().addons },
      fetchText: refuseUrl,
      // While some components wait for their process, others are built.
      limits: { concurrency: Math.min(request.concurrency, availableParallelism()) },
    });
    const checked: CheckedPackage[] = [];
    const show = progressOn(process.stderr);
    try {
      const { rebuild } = request;
      const nowMs = (): number => performance.now();
      const packages = request.packages.map((argument) => ({
        argument,
        wanted: readPackageArgument(folder, argument),
      }));
      const started = startBundlers(builder, request);
      const running = runCorpus(
        {
          ...{ fetcher, builder, runner, ownerId: 'corpus', rebuild, callDeadlineMs, nowMs },
          ...(request.form === undefined ? {} : { form: request.form }),
        },
        packages,
        {
          concurrency: request.concurrency,
          ...(request.only === undefined ? {} : { only: request.only }),
          onProgress: show.component,
        },
      );
      for await (const one of running) {
        checked.push(one);
        show.package(one);
      }
      await started;
    } finally {
      await Promise.all([runner.close(), builder.close(), fetcher.close()]);
      await packageFolders.close();
    }
    const report = makeReport(checked);
    if (request.output !== undefined)
      await writeFile(resolve(folder, request.output), fileText(report, checked, request.output));
    process.stdout.write(
      request.json ? `${jsonText(report, checked)}\n` : `${reportLines(report).join('\n')}\n`,
    );
    return report.failures.length === 0 ? 0 : 1;
  } finally {
    await leave();
  }
}

/** While the first package is read: each builds something, and makes what it puts in front of trees. */
async function startBundlers(builder: ComponentBuilder, { form, concurrency }: CorpusRequest): Promise<void> {
  const codes = Array.from(
    { length: Math.min(concurrency, availableParallelism()) },
    (_, at) =>
      `import { axios } from '@pipedream/platform'; export default { key: 'start-${at}', run: axios };`,
  );
  const wanted = { ownerId: 'corpus', rebuild: true, ...(form === undefined ? {} : { form }) };
  await Promise.allSettled(codes.map((code) => builder.build({ kind: 'code', code }, wanted)));
}

/** Below the data folder, but away from the service, which may be building there; without a data folder for this run only. */
async function openCache(
  wanted: string | undefined,
  folder: string,
  data: string,
): Promise<{ cacheFolder: string; leave: () => Promise<void> }> {
  const isKept = wanted !== undefined || existsSync(data);
  const cacheFolder = !isKept
    ? await mkdtemp(join(tmpdir(), 'millrace-corpus-'))
    : wanted === undefined
      ? join(resolve(data), 'corpus')
      : resolve(folder, wanted);
  await mkdir(cacheFolder, { recursive: true, mode: 0o700 });
  const release = lockFolder(cacheFolder);
  return {
    cacheFolder,
    leave: async () => {
      release();
      if (!isKept) await rm(cacheFolder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

function refuseUrl(url: string): Promise<never> {
  throw new CallerError(
    'unsupported_specifier',
    `${url} is not fetched here: files of packages and folders only`,
  );
}

function fileText(report: CorpusReport, checked: readonly CheckedPackage[], file: string): string {
  const ending = extname(file);
  if (ending === '.json') return `${jsonText(report, checked)}\n`;
  return ending === '.md' ? reportMarkdown(report) : reportValues(report, ending === '.csv' ? ',' : '\t');
}

function jsonText(report: CorpusReport, checked: readonly CheckedPackage[]): string {
  return JSON.stringify(
    { ...report, components: checked.map(({ name, components }) => ({ name, components })) },
    null,
    2,
  );
}

/** One line that changes on a terminal; elsewhere a line for each package. */
function progressOn(stream: NodeJS.WriteStream): {
  component: (progress: CorpusProgress) => void;
  package: (checked: CheckedPackage) => void;
} {
  let lastMs = Number.NEGATIVE_INFINITY;
  const clear = stream.isTTY ? '\r\u001b[K' : '';
  return {
    component: ({ name, done, of, failed, key = '' }) => {
      if (!stream.isTTY || performance.now() - lastMs < progressEveryMs) return;
      lastMs = performance.now();
      const line = `${name} ${done}/${of}${failed === 0 ? '' : `, ${failed} failed`} ${key}`;
      stream.write(`${clear}${line.slice(0, stream.columns - 1)}`);
    },
    package: ({ name, components, checkMs, error }) => {
      const failed = components.filter(({ failures }) => failures.length > 0).length;
      const outcome =
        error ?? `${components.length} components, ${failed} failed, ${(checkMs / 1000).toFixed(1)} s`;
      stream.write(`${clear}${name}: ${outcome}\n`);
    },
  };
}
