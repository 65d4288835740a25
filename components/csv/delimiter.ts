import { badInput } from '../action.ts';

/** The character of a prop; `\t`, as forms give it, is a tab. */
export function delimiterOf(value: string): string {
  const delimiter = value === '\\t' ? '\t' : value;
  if (delimiter.length !== 1 || /["\r\n]/.test(delimiter))
    throw badInput('delimiter', value, 'one character other than a quote, such as ; or \\t');
  return delimiter;
}

export const delimiterOptions = [
  { label: 'Comma', value: ',' },
  { label: 'Semicolon', value: ';' },
  { label: 'Tab', value: '\\t' },
  { label: 'Pipe', value: '|' },
];
