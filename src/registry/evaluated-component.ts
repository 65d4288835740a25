import type { PackageLock } from '#components/builder/build-messages.ts';
import type { BuiltBundle } from '#components/built-bundle.ts';
import type { ComponentShape } from '#components/component-shape.ts';
import { refuseUnknownTypes } from '#components/prop-types.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { DescribeOutcome } from '#runner/runner.ts';

/** Codes of errors of code that looks for a file or a module where a bundle has none. */
const missingFileCodes = new Set(['MODULE_NOT_FOUND', 'ERR_MODULE_NOT_FOUND', 'ENOENT', 'ERR_ACCESS_DENIED']);

/** Whether code with inlined packages could not be evaluated for a reason that their files may cure. */
export function missesFiles(outcome: DescribeOutcome, { bundle, lock }: BuiltBundle): boolean {
  if (outcome.status === 'described' || bundle.packages !== undefined) return false;
  if (!missingFileCodes.has(outcome.error.code ?? '')) return false;
  return Object.keys((JSON.parse(lock) as PackageLock).packages).length > 0;
}

/** What a component told when it was evaluated; throws what the caller reads about one that could not be. */
export function shapeFrom(outcome: DescribeOutcome, parameter: string): ComponentShape {
  if (outcome.status !== 'described') {
    const { name, message, code } = outcome.error;
    // Not the code's fault: no process was free, or the service stops.
    if (outcome.status === 'cancelled') throw new UnavailableError('overloaded', message);
    const isAddon = code === 'ERR_DLOPEN_DISABLED';
    throw new CallerError(
      isAddon ? 'native_addon' : 'invalid_component',
      `${parameter}: the component could not be evaluated: ${name}: ${message}${isAddon ? addonsHint : ''}`,
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

const addonsHint = ' (native addons are refused unless the service runs with MILLRACE_NATIVE_ADDONS=allow)';
