import type { BuiltBundle, BundleForm, ComponentBuilder } from '#components/build-component.ts';
import type { FileContent } from '#components/builder/text-of.ts';
import type { ComponentShape, PropDefinition } from '#components/component-shape.ts';
import { refuseUnknownTypes } from '#components/prop-types.ts';
import { toError } from '#lib/errors.ts';
import type { UserCodeError } from '#runner/call-outcome.ts';
import type { Bundle, DescribeOutcome, UserCall } from '#runner/runner.ts';
import type { CorpusInput } from './corpus-input.ts';
import { type BuildWay, buildAndEvaluate } from './evaluated-component.ts';
import type { ScannedComponent } from './scan-package.ts';
import type { SharedProcesses, TriedCall } from './shared-processes.ts';

/** How far a component came. */
export type CheckStage = 'build' | 'load' | 'props' | 'options' | 'additionalProps';

/** The outcome for one component of a package. Times are wall-clock ms, sizes bytes. */
export interface CheckedComponent {
  key: string;
  version: string;
  path: string;
  /** Absent where it was not built. */
  form?: BundleForm;
  ownFiles: number;
  bundleBytes: number;
  buildMs: number;
  /** To evaluate it and describe it, with the wait for a process. */
  loadMs: number;
  isLoaded: boolean;
  hasProps: boolean;
  /** Props whose options are a function, and those of them that could be called. */
  options: number;
  optionsCallable: number;
  hasAdditionalProps: boolean;
  additionalPropsCallable: boolean;
  failures: { stage: CheckStage; reason: string }[];
}

export interface ComponentCheckOptions {
  builder: Pick<ComponentBuilder, 'build'>;
  /** Their calls may connect nowhere: there is no account, and the user did not ask to reach a vendor. */
  processes: SharedProcesses;
  /** The owner of the builds. */
  ownerId: string;
  /** Takes no bundle of an earlier run. */
  rebuild: boolean;
  /** Absent: the one that the service would take. */
  form?: BundleForm;
  /** For one call of options or additionalProps; code that is still at it hangs. */
  callDeadlineMs: number;
  nowMs: () => number;
}

/** To evaluate a component beside others. */
const describeDeadlineMs = 10_000;
/** What has not ended by then is asked again alone. */
const togetherMsMax = 3_000;
/** What tries again and again to connect is left to itself until its process has done its part. */
const leftDeadlineMs = 10 * 60_000;

/** Told where a reason would be longer. */
const reasonLengthMax = 500;

/** How a call may end when its code runs without an account: the code was reached, and it ended. */
const endsOfCode: ReadonlySet<TriedCall['status']> = new Set(['finished', 'threw', 'refused']);

/**
 * Builds one component and evaluates it in the sandbox as a deploy does, then calls the functions of its props with empty
 * accounts. An error of the code, or of a refused connection, is as good as options: the functions were
 * found and came to an end. Never rejects because of the component.
 */
export async function checkComponent(
  options: ComponentCheckOptions,
  input: Pick<CorpusInput, 'name' | 'version' | 'files'>,
  { key, version, path }: Pick<ScannedComponent, 'key' | 'version' | 'path'>,
): Promise<CheckedComponent> {
  const checked: CheckedComponent = {
    ...{ key, version, path },
    ...{ ownFiles: 0, bundleBytes: 0, buildMs: 0, loadMs: 0, isLoaded: false, hasProps: false },
    ...{ options: 0, optionsCallable: 0, hasAdditionalProps: false, additionalPropsCallable: false },
    failures: [],
  };
  const fail = (stage: CheckStage, reason: string): CheckedComponent => {
    checked.failures.push({ stage, reason: reason.replace(/\s+/g, ' ').trim().slice(0, reasonLengthMax) });
    return checked;
  };
  let made: { bundle: Bundle; described: DescribeOutcome };
  try {
    made = await buildAndLoad(options, { ...input, path, checked });
  } catch (error) {
    return fail('build', toError(error).message);
  }
  const { bundle, described } = made;
  if (described.status !== 'described')
    return fail('load', `${described.status}: ${described.error.name}: ${described.error.message}`);
  checked.isLoaded = true;
  const shape = JSON.parse(described.shape) as ComponentShape;
  try {
    refuseUnknownTypes(shape.configurableProps, 'props');
    checked.hasProps = true;
  } catch (error) {
    fail('props', toError(error).message);
  }
  await callFunctions(options, bundle, shape, { checked, fail });
  return checked;
}

interface CheckedFile extends Pick<CorpusInput, 'name' | 'version' | 'files'> {
  path: string;
  /** Gets the times and sizes. */
  checked: CheckedComponent;
}

/** As the service does it. */
async function buildAndLoad(
  options: ComponentCheckOptions,
  file: CheckedFile,
): Promise<{ bundle: Bundle; described: DescribeOutcome }> {
  const { checked } = file;
  const { nowMs, form } = options;
  const { built, outcome } = await buildAndEvaluate<never>(form === undefined ? {} : { form }, {
    build: (way) => {
      const startedMs = nowMs();
      return buildOf(options, file, way).finally(() => {
        checked.buildMs += nowMs() - startedMs;
      });
    },
    evaluate: ({ bundle }) => {
      const builtMs = nowMs();
      return untilRun(() => options.processes.describe(bundle, describeDeadlineMs)).finally(() => {
        checked.loadMs += nowMs() - builtMs;
      });
    },
  });
  const { bundle } = built;
  checked.form = bundle.packages === undefined ? 'inline' : 'tree';
  checked.ownFiles = built.files.length;
  checked.bundleBytes = Buffer.byteLength(bundle.code);
  return { bundle, described: outcome };
}

function buildOf(
  { builder, ownerId, rebuild }: ComponentCheckOptions,
  { name, version, files, path }: CheckedFile,
  way: BuildWay,
): Promise<BuiltBundle> {
  const read = async (file: string): Promise<FileContent | null> => files.get(file) ?? null;
  const source = { kind: 'stored', packageId: `${name}@${version}`, path, read } as const;
  return builder.build(source, { ownerId, rebuild, allDeclared: true, ...way });
}

async function callFunctions(
  options: ComponentCheckOptions,
  bundle: Bundle,
  shape: ComponentShape,
  { checked, fail }: { checked: CheckedComponent; fail: (stage: CheckStage, reason: string) => void },
): Promise<void> {
  const { processes, callDeadlineMs } = options;
  const asked = shape.configurableProps.filter(({ remoteOptions }) => remoteOptions === true);
  checked.options = asked.length;
  checked.hasAdditionalProps = shape.hasAdditionalProps;
  const previous = Object.fromEntries(shape.configurableProps.map(({ name, ...rest }) => [name, rest]));
  const calls: UserCall[] = [
    ...asked.map(({ name: prop }) => ({ kind: 'options', prop, ...firstPage }) as const),
    ...(shape.hasAdditionalProps ? [{ kind: 'additionalProps', previous } as const] : []),
  ];
  const props = emptyValues(shape.configurableProps);
  const isCallable = (made: UserCall, outcome: TriedCall): boolean =>
    endsOfCode.has(outcome.status) && !isNotFound(outcome, made);
  const times = { patienceMs: Math.min(callDeadlineMs, togetherMsMax), deadlineMs: leftDeadlineMs };
  const outcomes = await Promise.all(
    calls.map(async (call) => {
      let outcome = await processes.call(bundle, { call, props }, times);
      // One that ends the process or keeps it busy took others with it: alone it shows which.
      if (!isCallable(call, outcome))
        outcome = await untilRun(() => processes.callAlone(bundle, { call, props }, callDeadlineMs));
      return { call, outcome };
    }),
  );
  // In the order of the props, whichever ended first: the same component gives the same report.
  for (const { call, outcome } of outcomes) {
    if (isCallable(call, outcome)) {
      if (call.kind === 'options') checked.optionsCallable += 1;
      else checked.additionalPropsCallable = true;
      continue;
    }
    const reason = `${outcome.status}: ${errorOf(outcome)?.name ?? 'Error'}: ${errorOf(outcome)?.message ?? ''}`;
    if (call.kind === 'options') fail('options', `${call.prop}: ${reason}`);
    else fail('additionalProps', reason);
  }
}

function errorOf(outcome: TriedCall): UserCodeError | undefined {
  return 'error' in outcome ? outcome.error : undefined;
}

/** A machine without a free process is no evidence against the component. */
const triesMax = 3;

async function untilRun<T extends { status: string }>(run: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    const outcome = await run();
    if (outcome.status !== 'cancelled' || tries === triesMax) return outcome;
  }
}

const firstPage = { page: 0, prevContext: {}, query: '' };

/** The sandbox says so when it has no function for a prop that was described with one. */
function isNotFound(outcome: TriedCall, made: UserCall): boolean {
  return (
    made.kind === 'options' && errorOf(outcome)?.message === `prop ${made.prop} has no options to choose from`
  );
}

/** The props of a user who has chosen nothing yet but connected accounts, which are empty. */
function emptyValues(definitions: readonly PropDefinition[]): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const { name, type, default: value } of definitions) {
    if (type === 'app') values[name] = { $auth: {} };
    else if (type === '$.interface.http') values[name] = { endpoint: 'http://localhost/' };
    else if (type === '$.interface.timer') values[name] = {};
    else if (value !== undefined) values[name] = value;
  }
  return values;
}
