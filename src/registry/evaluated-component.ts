import type { BundleForm, PackageLock } from '#components/builder/build-messages.ts';
import type { BuiltBundle } from '#components/built-bundle.ts';
import type { ComponentShape } from '#components/component-shape.ts';
import { refuseUnknownTypes } from '#components/prop-types.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { DescribeOutcome } from '#runner/runner.ts';

/** Codes of errors of code that looks for a file or a module where a bundle has none. */
const missingFileCodes = new Set(['MODULE_NOT_FOUND', 'ERR_MODULE_NOT_FOUND', 'ENOENT', 'ERR_ACCESS_DENIED']);

/** True when code with inlined packages could not be evaluated for a reason that packages as files may remove. */
function missesFiles(outcome: DescribeOutcome, { bundle, lock }: BuiltBundle): boolean {
  if (outcome.status === 'described' || bundle.packages !== undefined) return false;
  if (!missingFileCodes.has(outcome.error.code ?? '')) return false;
  return Object.keys((JSON.parse(lock) as PackageLock).packages).length > 0;
}

/** What Node refuses a package as a module for, and bundlers do not. */
const onlyOfNodeCodes = new Set([
  ...missingFileCodes,
  'ERR_PACKAGE_PATH_NOT_EXPORTED',
  'ERR_UNSUPPORTED_DIR_IMPORT',
  'ERR_UNKNOWN_FILE_EXTENSION',
  'ERR_IMPORT_ATTRIBUTE_MISSING',
  'ERR_REQUIRE_ASYNC_MODULE',
  'ERR_REQUIRE_CYCLE_MODULE',
]);

/** True when packages as files could not be imported for a reason that one text does not have. */
function missesText(outcome: DescribeOutcome, { bundle }: BuiltBundle): boolean {
  if (outcome.status === 'described' || bundle.packages === undefined) return false;
  const { name, message, code } = outcome.error;
  return onlyOfNodeCodes.has(code ?? '') || (name === 'SyntaxError' && /\bexport\b/.test(message));
}

/** The package whose native addon was refused, where that is why a component could not be evaluated. */
function refusedAddonOf(outcome: DescribeOutcome): string | undefined {
  if (outcome.status === 'described' || outcome.error.code !== 'ERR_DLOPEN_DISABLED') return undefined;
  return /the package "([^"]+)" needs a native addon/.exec(outcome.error.message)?.[1];
}

/** How a component is built. */
export interface BuildWay {
  form?: BundleForm;
  standIns?: readonly string[];
}

/** Addons that a component may do without. */
const standInsMax = 4;

const endedByTime = new Set(['build_timeout', 'build_cancelled']);

/**
 * Builds a component and evaluates it; once more where another form of its packages may cure what it failed of: packages
 * as files, or in the text, or with something in place of a native addon that is refused, which most of their uses do
 * not need. `wanted.form` says that only this one counts. Rejects with what the first build does.
 */
export async function buildAndEvaluate<Known extends { status: 'known' } = never>(
  wanted: BuildWay,
  options: {
    build: (way: BuildWay) => Promise<BuiltBundle>;
    evaluate: (built: BuiltBundle) => Promise<DescribeOutcome | Known>;
  },
): Promise<{ built: BuiltBundle; outcome: DescribeOutcome | Known }> {
  const attempt = async (way: BuildWay) => {
    const built = await options.build(way);
    return { way, built, outcome: await options.evaluate(built) };
  };
  let made = await attempt(wanted);
  let told = made;
  for (;;) {
    const way = nextWay(wanted, made);
    if (way === undefined) return told;
    const again = await attempt(way).catch((error: unknown) => {
      // A form that cannot be built says nothing new. A build that took too long or was cancelled is the reason itself.
      if (error instanceof CallerError && !endedByTime.has(error.code)) return undefined;
      throw error;
    });
    if (again === undefined) return told;
    const hasFailed = !['described', 'known', 'cancelled'].includes(again.outcome.status);
    if (!hasFailed) return again;
    // Of two failures, that of packages as files is more informative, unless the stand-in itself failed, which a time-out does not prove.
    const isOfItself = way.standIns !== undefined && again.outcome.status !== 'timed_out';
    if (way.form === 'tree' && !isOfItself) told = again;
    made = again;
  }
}

function nextWay(
  wanted: BuildWay,
  made: { way: BuildWay; built: BuiltBundle; outcome: DescribeOutcome | { status: 'known' } },
): BuildWay | undefined {
  const { way, built, outcome } = made;
  if (outcome.status === 'known' || outcome.status === 'described' || outcome.status === 'cancelled')
    return undefined;
  const { standIns = [] } = way;
  const addon = refusedAddonOf(outcome);
  if (addon !== undefined && wanted.form !== 'inline') {
    const isNew = !standIns.includes(addon) && standIns.length < standInsMax;
    return isNew ? { form: 'tree', standIns: [...standIns, addon] } : undefined;
  }
  if (way.form !== undefined) return undefined;
  if (missesFiles(outcome, built)) return { form: 'tree' };
  return missesText(outcome, built) ? { form: 'inline' } : undefined;
}

/** The shape that the evaluation of a component returned; throws the caller's error if it failed. */
export function shapeFrom(outcome: DescribeOutcome, parameter: string, source: string): ComponentShape {
  if (outcome.status !== 'described') {
    const { name, message, code } = outcome.error;
    // Not the code's fault: no process was free, or the service stops.
    if (outcome.status === 'cancelled') throw new UnavailableError('overloaded', message);
    const isAddon = code === 'ERR_DLOPEN_DISABLED';
    const hint = isAddon ? addonsHint : readsVariables(source) ? variablesHint : '';
    throw new CallerError(
      isAddon ? 'native_addon' : 'invalid_component',
      `${parameter}: the component could not be evaluated: ${name}: ${message}${hint}`,
      {
        parameter,
        reason: outcome.status,
        error: { name, message, stack: outcome.error.stack },
      },
    );
  }
  const shape = JSON.parse(outcome.shape) as ComponentShape;
  refuseUnknownTypes(shape.configurableProps, parameter);
  return shape;
}

/** Variables are not set while a component is built: what it defines is kept in clear. */
const variablesHint =
  ' (environment variables are set when a workflow runs, not while a component is built: read them in run)';

function readsVariables(source: string): boolean {
  return /\bprocess\s*\.\s*env\b/.test(source);
}

const addonsHint =
  ' (native addons are refused here: they need the kernel level of the sandbox, or MILLRACE_NATIVE_ADDONS=allow)';
