import { getSystemErrorMap } from 'node:util';

const systemErrors = new Map(
  [...getSystemErrorMap()].map(([errno, [code, text]]) => [code, { errno, text }] as const),
);

/** An error as Node's own functions throw it when the system refuses a call. */
export function fileError(
  code: string,
  syscall: string,
  path?: string,
  dest?: string,
): NodeJS.ErrnoException {
  const { errno, text } = systemErrors.get(code) ?? { errno: -5, text: 'i/o error' };
  const where = path === undefined ? '' : ` '${path}'${dest === undefined ? '' : ` -> '${dest}'`}`;
  const error = new Error(`${code}: ${text}, ${syscall}${where}`);
  return Object.assign(error, {
    ...{ errno, code, syscall },
    ...(path === undefined ? {} : { path }),
    ...(dest === undefined ? {} : { dest }),
  });
}
