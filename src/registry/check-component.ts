import type { BuiltBundle, ComponentBuilder } from '#components/build-component.ts';
import type { ComponentShape, PropDefinition } from '#components/component-shape.ts';
import { refuseUnknownTypes } from '#components/prop-types.ts';
import { toError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { CallOutcome } from '#runner/call-outcome.ts';
import type { Bundle, Runner, UserCall } from '#runner/runner.ts';
import type { CorpusInput } from './corpus-input.ts';
import type { ScannedComponent } from './scan-package.ts';

/** How far a component came. */
export type CheckStage = 'build' | 'load' | 'props' | 'options' | 'additionalProps';

/** What became of one component of a package. Times are wall-clock ms, sizes bytes. */
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

/** inline: one text with its packages in it. tree: packages as files beside it. */
export type BundleForm = 'inline' | 'tree';

export interface CheckParts {
  builder: Pick<ComponentBuilder, 'build'>;
  /** Its calls may connect nowhere: no account is there, and nobody asked to reach a vendor. */
  runner: Pick<Runner, 'describe' | 'call' | 'forget'>;
  /** Whose builds these are: another name builds everything anew. */
  ownerId: string;
  /** For one call of options or additionalProps; code that is still at it hangs. */
  callDeadlineMs: number;
  nowMs: () => number;
}

/** Told where a reason would be longer. */
const reasonLengthMax = 500;

/** What a call may end with when its code is asked for something without an account: it was reached, and it came to an end. */
const endsOfCode: ReadonlySet<CallOutcome['status']> = new Set(['finished', 'threw']);

/**
 * Builds one component and evaluates it in the sandbox as a deploy does, then calls the functions of its props with empty
 * accounts. That these answer with an error of theirs, or of a connection that is refused, is as good as options: they were
 * found and came to an end. Never rejects because of the component.
 */
export async function checkComponent(
  parts: CheckParts,
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
  const startedMs = parts.nowMs();
  let built: BuiltBundle;
  try {
    built = await buildOf(parts, input, path);
  } catch (error) {
    return fail('build', toError(error).message);
  } finally {
    checked.buildMs = parts.nowMs() - startedMs;
  }
  const { bundle } = built;
  checked.form = formOf(bundle);
  checked.ownFiles = built.files.length;
  checked.bundleBytes = Buffer.byteLength(bundle.code);
  const builtMs = parts.nowMs();
  const described = await parts.runner.describe({ bundle, ownerId: parts.ownerId });
  checked.loadMs = parts.nowMs() - builtMs;
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
  await callFunctions(parts, bundle, shape, { checked, fail });
  return checked;
}

function buildOf(
  { builder, ownerId }: CheckParts,
  { name, version, files }: Pick<CorpusInput, 'name' | 'version' | 'files'>,
  path: string,
): Promise<BuiltBundle> {
  const read = async (file: string): Promise<string | null> => files.get(file) ?? null;
  return builder.build({ kind: 'stored', packageId: `${name}@${version}`, path, read }, { ownerId });
}

/** The form in which the packages of a bundle come. */
function formOf(_bundle: Bundle): BundleForm {
  return 'inline';
}

async function callFunctions(
  parts: CheckParts,
  bundle: Bundle,
  shape: ComponentShape,
  { checked, fail }: { checked: CheckedComponent; fail: (stage: CheckStage, reason: string) => void },
): Promise<void> {
  const asked = shape.configurableProps.filter(({ remoteOptions }) => remoteOptions === true);
  checked.options = asked.length;
  checked.hasAdditionalProps = shape.hasAdditionalProps;
  if (asked.length === 0 && !shape.hasAdditionalProps) return;
  // All in one process: they are of one component, and a new one takes its place where one of them ends it.
  const deploymentId = newId('dc');
  const call = async (made: UserCall): Promise<string | undefined> => {
    const outcome = await parts.runner.call({
      ...{ deploymentId, ownerId: parts.ownerId, bundle, revision: 0, call: made, db: {} },
      props: emptyValues(shape.configurableProps),
      deadlineMs: parts.callDeadlineMs,
    });
    if (endsOfCode.has(outcome.status) && !isNotFound(outcome, made)) return undefined;
    return `${outcome.status}: ${outcome.error?.name ?? 'Error'}: ${outcome.error?.message ?? ''}`;
  };
  try {
    const ask = (prop: string): Promise<string | undefined> =>
      call({ kind: 'options', prop, page: 0, prevContext: {}, query: '' });
    // Most of them wait, for what they retry.
    const first = await Promise.all(asked.map(({ name }) => ask(name)));
    for (const [at, { name: prop }] of asked.entries()) {
      // One that ends the process or keeps it busy takes the others with it: alone it shows which.
      const failed = first[at] === undefined || asked.length === 1 ? first[at] : await ask(prop);
      if (failed === undefined) checked.optionsCallable += 1;
      else fail('options', `${prop}: ${failed}`);
    }
    if (!shape.hasAdditionalProps) return;
    const previous = Object.fromEntries(shape.configurableProps.map(({ name, ...rest }) => [name, rest]));
    const failed = await call({ kind: 'additionalProps', previous });
    checked.additionalPropsCallable = failed === undefined;
    if (failed !== undefined) fail('additionalProps', failed);
  } finally {
    await parts.runner.forget(deploymentId);
  }
}

/** The sandbox says so when it has no function for a prop that was described with one. */
function isNotFound({ error }: CallOutcome, made: UserCall): boolean {
  return made.kind === 'options' && error?.message === `prop ${made.prop} has no options to choose from`;
}

/** As for somebody who has chosen nothing yet but connected accounts, in which nothing is. */
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
