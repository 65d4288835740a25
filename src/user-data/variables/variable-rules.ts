import { CallerError } from '#lib/errors.ts';
import { bytesText, countText } from '#lib/units.ts';

const variableNamePattern = '^[A-Za-z_][A-Za-z0-9_]*$';
export const variableNameCharactersMax = 256;
const variableValueBytesMax = 64 * 1024;
export const variableDescriptionCharactersMax = 500;
/** Maximum of variables of one workspace, project or user. */
export const variablesMax = 1000;
/** Maximum of all names and values of one set: each process with code of the owner holds a copy for each of its deployments. */
const variableSetBytesMax = 256 * 1024;
/** Maximum of variables in one request. */
export const variablesPerRequestMax = 100;

/** Beginnings of names that the service sets itself. */
const reservedPrefixes = ['PD_', 'PIPEDREAM_', 'MILLRACE_'];
/** Names that Node or the system reads when a process starts. A value would have no effect, or would mislead packages. */
const processNames = new Set([
  ...['NODE_OPTIONS', 'NODE_PATH', 'NODE_EXTRA_CA_CERTS', 'NODE_V8_COVERAGE', 'NODE_COMPILE_CACHE'],
  ...['HOME', 'PATH', 'PWD', 'TMPDIR', 'TZ', 'LD_PRELOAD', 'LD_LIBRARY_PATH'],
]);

/** Throws CallerError `invalid_parameter` for a name that no variable can have. */
export function checkVariableName(name: string, parameter: string): void {
  const refuse = (expected: string) =>
    new CallerError('invalid_parameter', `${parameter}: ${expected}`, { parameter });
  if (name.length > variableNameCharactersMax || !new RegExp(variableNamePattern).test(name)) {
    throw refuse(
      `found ${JSON.stringify(name.slice(0, 60))}, expected letters, digits and underscores, not a digit first, at most ${variableNameCharactersMax} characters`,
    );
  }
  const prefix = reservedPrefixes.find((start) => name.toUpperCase().startsWith(start));
  if (prefix !== undefined)
    throw refuse(
      `found ${name}, expected another name: the service sets variables that begin with ${prefix}`,
    );
  if (name === '__proto__')
    throw refuse('found __proto__, expected another name: every object has it already');
  if (processNames.has(name))
    throw refuse(`found ${name}, expected another name: the processes that run code have this one already`);
}

/** Throws CallerError `invalid_parameter`. */
export function checkVariableValue(value: string, parameter: string): void {
  const refuse = (message: string) =>
    new CallerError('invalid_parameter', `${parameter}: ${message}`, { parameter });
  if (Buffer.byteLength(value) > variableValueBytesMax)
    throw refuse(
      `found ${countText(Buffer.byteLength(value))} bytes, expected at most ${countText(variableValueBytesMax)} (${bytesText(variableValueBytesMax)})`,
    );
  if (value.includes('\0')) throw refuse('must not contain the character U+0000');
  // Stored text is UTF-8, which cannot have it: another value than the given one would be kept.
  if (!value.isWellFormed()) throw refuse('found half of a surrogate pair, expected well-formed Unicode');
}

/** Throws CallerError `conflict`. */
export function checkVariableSet({ count, bytes }: { count: number; bytes: number }): void {
  if (count > variablesMax)
    throw new CallerError(
      'conflict',
      `there can be at most ${variablesMax} variables of one workspace, project or user`,
    );
  if (bytes > variableSetBytesMax)
    throw new CallerError(
      'conflict',
      `names and values of the variables of one workspace, project or user can have ${bytesText(variableSetBytesMax)} together (${countText(variableSetBytesMax)} bytes), found ${countText(bytes)} bytes`,
    );
}
