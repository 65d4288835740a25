/**
 * Lines of the log for a terminal: the time, what happened, and its fields. Errors come with their stack.
 * Everything that is not a plain word is quoted, so that no field can move the cursor or pretend to be another line.
 */

const nameOfLevel: Readonly<Record<number, string>> = {
  20: 'debug',
  30: '',
  40: 'WARN',
  50: 'ERROR',
  60: 'FATAL',
};
/** Letters, digits and what ids, addresses, paths and units are made of. */
const plainWord = /^[\w./:@+%[\]-]+$/;
const controls = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** A line of JSON, as pino writes it, as text; what is no such line stays as it is. */
export function logText(line: string): string {
  const fields = parse(line);
  if (fields === undefined) return line;
  const { level, time, msg, err, ...others } = fields;
  const shown = [clockTime(time), nameOfLevel[level as number] ?? '', word(msg)];
  for (const [name, value] of Object.entries(others)) shown.push(`${name}=${word(value)}`);
  const { stack, ...rest } = (typeof err === 'object' && err !== null ? err : {}) as Record<string, unknown>;
  if (stack === undefined && err !== undefined) shown.push(`err=${word(err)}`);
  const text = `${shown.filter((part) => part !== '').join(' ')}\n`;
  return stack === undefined ? text : `${text}${stackText(stack, rest.code)}`;
}

function parse(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** The local time of day of the machine: a terminal is read now, and where the machine is. */
function clockTime(time: unknown): string {
  const date = new Date(String(time));
  return Number.isNaN(date.getTime()) ? '' : date.toTimeString().slice(0, 8);
}

function word(value: unknown): string {
  if (typeof value === 'string' && plainWord.test(value)) return value;
  return harmless(JSON.stringify(value) ?? String(value));
}

function stackText(stack: unknown, code: unknown): string {
  const lines = String(stack)
    .split('\n')
    .map((line) => `  ${harmless(JSON.stringify(line).slice(1, -1).replaceAll('\\"', '"'))}\n`);
  return code === undefined ? lines.join('') : `${lines.join('')}  code=${word(code)}\n`;
}

/** JSON leaves the control characters beyond ASCII as they are. */
function harmless(text: string): string {
  return text.replace(controls, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
