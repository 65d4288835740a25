import { MillraceError } from '#sdk';

/** An error of the service at a place in code; both count from 1. */
export interface CodeProblem {
  line: number;
  column: number;
  message: string;
}

/** The component's own file, as the service names it: text that was given, and what it became. */
const own = /(?:^|[\s(/])(?:component_code|component\.[cm]?[jt]s):(\d+):(\d+)\)?/;

/** The place in the code that an answer is about; undefined: it names none. */
export function codeProblemOf(error: unknown): CodeProblem | undefined {
  if (!(error instanceof MillraceError)) return undefined;
  const { line, column, file, error: thrown } = error.details;
  const message = withoutPlace(error.message);
  const isOwn = file === undefined || own.test(` ${String(file)}:1:1`);
  if (typeof line === 'number' && isOwn)
    return { line, column: typeof column === 'number' ? column : 1, message };
  const stack =
    typeof thrown === 'object' && thrown !== null ? String((thrown as { stack?: unknown }).stack) : '';
  const place = own.exec(stack);
  return place === null ? undefined : { line: Number(place[1]), column: Number(place[2]), message };
}

/** A message that is shown at its place needs neither the name of the parameter nor that of the place. */
export function withoutPlace(message: string): string {
  return message
    .replace(/^(?:(?:steps|triggers)\[\d+\][\w.[\]]*|step(?:\.\w+)*|component_code): /, '')
    .replace(/ \((?:component_code|component\.[cm]?[jt]s):\d+:\d+\)$/, '');
}
