import { relative } from 'node:path';
import type { run } from 'node:test';
import { inspect } from 'node:util';

type TestEvent =
  ReturnType<typeof run> extends AsyncIterable<infer _> ? { type: string; data: EventData } : never;

/** The fields of the test runner's events that the report reads. */
interface EventData {
  name?: string;
  nesting?: number;
  testId?: number;
  parentId?: number;
  /** Absent on events of the entry of a whole file. */
  entryFile?: string;
  file?: string;
  line?: number;
  skip?: string | boolean;
  message?: string;
  details?: {
    type?: string;
    passed?: boolean;
    duration_ms?: number;
    error?: Error & { failureType?: string; cause?: unknown };
  };
}

interface Failure {
  /** Names from the outermost suite to the test; empty when the file itself failed. */
  path: string[];
  place: string;
  error: string;
}

interface FileReport {
  path: string;
  startedAtMs: number;
  wallSeconds: number;
  cpuSeconds: number | undefined;
  tests: number;
  failures: Failure[];
  /** Tests that did not begin because their suite or file had failed. */
  cancelled: number;
  /** What the file printed, and its diagnostics: shown when it fails. */
  output: string[];
}

/** Failures that are only the consequence of another one in the same file. */
const followUpFailures = ['subtestsFailed', 'cancelledByParent'];
/** A file that had not ended, or not begun, when the run was stopped. */
const interruptions = ['cancelledByParent', 'testAborted'];
const slowestShown = 10;
const outputLinesMax = 60;

/** Lines of an error that the summary repeats; it was shown in full when the test failed. */
const errorLinesMax = 12;

/**
 * What `npm test` prints: one line for each file as it ends, each failure in full at once, and at the end ten lines on time, what was
 * skipped and why, and for each failure the command that repeats it. The last line is `N passed, N failed, N skipped`.
 */
export class TestReport {
  readonly #root: string;
  readonly #print: (line: string) => void;
  readonly #now: () => number;
  readonly #files = new Map<string, FileReport>();
  /** By file and id: the name of each test and suite, and the id of its parent. */
  readonly #names = new Map<string, { name: string; parentId: number | undefined }>();
  readonly #skips = new Map<string, number>();
  #interrupted = 0;
  #passed = 0;
  #failed = 0;
  #skipped = 0;

  constructor(options: { root: string; print: (line: string) => void; now?: () => number }) {
    this.#root = options.root;
    this.#print = options.print;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Takes an event of `node:test`'s `run()`. */
  take({ type, data }: TestEvent): void {
    if (data.entryFile === undefined) this.#takeOfFile(type, data);
    else this.#takeOfTest(type, data, this.#fileReport(data.entryFile));
  }

  get failed(): number {
    return this.#failed;
  }

  /** Adds the CPU seconds of files, by path. */
  addCpuSeconds(seconds: ReadonlyMap<string, number>): void {
    for (const [path, value] of seconds) {
      const file = this.#files.get(path);
      if (file !== undefined) file.cpuSeconds = value;
    }
  }

  /** The lines at the end. `cpuSeconds`: of everything that ran, the servers and bundlers included. */
  summary(total: {
    wallSeconds: number;
    cpuSeconds: number | undefined;
    notices: readonly string[];
  }): string[] {
    const files = [...this.#files.values()].filter(({ tests, failures }) => tests > 0 || failures.length > 0);
    const slowest = files.toSorted((a, b) => b.wallSeconds - a.wallSeconds).slice(0, slowestShown);
    const failing = files.filter(({ failures }) => failures.length > 0);
    const reasons = [...this.#skips].toSorted(([, a], [, b]) => b - a);
    return [
      '',
      ...(failing.length === 0
        ? []
        : ['Failed:', ...failing.flatMap((file) => this.#linesOnFailures(file)), '']),
      'Slowest files:',
      ...slowest.map((file) => `  ${timesOf(file)}  ${file.path}`),
      ...(reasons.length === 0
        ? []
        : ['Skipped:', ...reasons.map(([reason, count]) => `  ${count} × ${reason}`)]),
      ...total.notices,
      ...(this.#interrupted === 0 ? [] : [`✖ the run was stopped: ${this.#interrupted} files did not end`]),
      '',
      `${files.length} files in ${formatSeconds(total.wallSeconds)}${
        total.cpuSeconds === undefined ? '' : `, ${formatSeconds(total.cpuSeconds)} of CPU time`
      }`,
      `${this.#passed} passed, ${this.#failed} failed, ${this.#skipped} skipped`,
    ];
  }

  #fileReport(path: string): FileReport {
    const short = relative(this.#root, path);
    const known = this.#files.get(short);
    if (known !== undefined) return known;
    const report: FileReport = {
      path: short,
      startedAtMs: this.#now(),
      wallSeconds: 0,
      cpuSeconds: undefined,
      tests: 0,
      failures: [],
      cancelled: 0,
      output: [],
    };
    this.#files.set(short, report);
    return report;
  }

  #takeOfFile(type: string, data: EventData): void {
    if (data.file === undefined || data.nesting !== 0) return;
    const report = this.#fileReport(data.file);
    if (type === 'test:dequeue') report.startedAtMs = this.#now();
    if (type !== 'test:complete') return;
    report.wallSeconds = (this.#now() - report.startedAtMs) / 1000;
    if (interruptions.includes(data.details?.error?.failureType ?? '')) {
      this.#interrupted += 1;
      return;
    }
    if (data.details?.passed === false && report.failures.length === 0) {
      // It could not be loaded, or ended or hung outside of any test.
      this.#fail(report, { path: [], place: report.path, error: describeError(data.details.error) });
    }
    const mark = report.failures.length === 0 ? '✔' : '✖';
    this.#print(`${mark} ${formatSeconds(report.wallSeconds).padStart(8)}  ${report.path} (${report.tests})`);
  }

  #takeOfTest(type: string, data: EventData, report: FileReport): void {
    const { name = '', testId, parentId, details } = data;
    if (type === 'test:enqueue') this.#names.set(`${report.path} ${testId}`, { name, parentId });
    else if (type === 'test:stdout' || type === 'test:stderr' || type === 'test:diagnostic')
      report.output.push((data.message ?? '').trimEnd());
    if (type !== 'test:complete') return;
    const isTest = details?.type !== 'suite';
    if (isTest) report.tests += 1;
    if (data.skip !== undefined) this.#skip(report, data);
    else if (details?.passed === true) this.#passed += isTest ? 1 : 0;
    else if (!followUpFailures.includes(details?.error?.failureType ?? ''))
      this.#fail(report, {
        path: this.#pathOf(report, testId),
        place: `${relative(this.#root, data.file ?? '')}:${data.line}`,
        error: describeError(details?.error),
      });
    else if (details?.error?.failureType === 'cancelledByParent') report.cancelled += 1;
  }

  #skip(report: FileReport, { skip }: EventData): void {
    this.#skipped += 1;
    const reason = typeof skip === 'string' ? skip : `without a reason, in ${report.path}`;
    this.#skips.set(reason, (this.#skips.get(reason) ?? 0) + 1);
  }

  #fail(report: FileReport, failure: Failure): void {
    this.#failed += 1;
    report.failures.push(failure);
    this.#print(
      [
        '',
        `✖ ${[report.path, ...failure.path].join(' › ')}`,
        `  at ${failure.place}`,
        failure.error.replaceAll(/^/gm, '  '),
        '',
      ].join('\n'),
    );
  }

  #pathOf(report: FileReport, testId: number | undefined): string[] {
    const path: string[] = [];
    for (let id = testId; id !== undefined && id !== 0; ) {
      const found = this.#names.get(`${report.path} ${id}`);
      if (found === undefined) break;
      path.unshift(found.name);
      id = found.parentId;
    }
    return path;
  }

  #linesOnFailures({ path, failures, cancelled, output }: FileReport): string[] {
    const lines = output.join('\n').split('\n');
    const seeds = new Set(lines.flatMap((line) => /MILLRACE_TEST_SEED=\d+/.exec(line) ?? []));
    return [
      ...failures.flatMap((failure) => {
        const name = failure.path.at(-1);
        const pattern = name === undefined ? '' : ` --test-name-pattern=${quote(literalPattern(name))}`;
        return [
          `  ✖ ${failure.path.join(' › ') || 'the file itself'} (${failure.place})`,
          ...failure.error
            .split('\n')
            .slice(0, errorLinesMax)
            .map((line) => `    ${line}`),
          `    repeat: ${[...seeds, `npm test -- ${path}${pattern}`].join(' ')}`,
        ];
      }),
      ...(cancelled === 0 ? [] : [`    ${cancelled} tests of ${path} did not run because of it`]),
      ...(output.length === 0
        ? []
        : [`    ${path} printed:`, ...lines.slice(-outputLinesMax).map((line) => `    | ${line}`)]),
    ];
  }
}

function timesOf({ wallSeconds, cpuSeconds }: FileReport): string {
  const cpu = cpuSeconds === undefined ? '' : `, ${formatSeconds(cpuSeconds).padStart(7)} CPU`;
  return `${formatSeconds(wallSeconds).padStart(7)}${cpu}`;
}

function formatSeconds(seconds: number): string {
  return `${seconds.toFixed(1)} s`;
}

/** The failed assertion or thrown error itself, without the test runner's wrapping. */
function describeError(error: (Error & { cause?: unknown }) | undefined): string {
  const cause = error?.cause ?? error;
  if (typeof cause === 'string') return cause;
  return inspect(cause, { depth: 8, maxStringLength: 10_000, maxArrayLength: 200, breakLength: 120 });
}

/** The name as a regular expression that matches it and nothing else. */
function literalPattern(name: string): string {
  return name.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`);
}

/** As one word of a POSIX shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
