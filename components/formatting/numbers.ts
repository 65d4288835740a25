import { badInput } from '../action.ts';

/** A number as text: sign, digits before the decimal mark, digits behind it. Nothing of it is rounded. */
export interface DecimalText {
  sign: '' | '-';
  whole: string;
  fraction: string;
}

/** Reads digits with any grouping: `-1.234.567,80` with the mark `,`. */
export function readDecimal(prop: string, value: unknown, mark: string): DecimalText {
  const text = typeof value === 'number' ? plainDigits(value) : value;
  const decimalMark = typeof value === 'number' ? '.' : mark;
  if (decimalMark !== '.' && decimalMark !== ',') throw badInput('decimal mark', mark, '. or ,');
  if (typeof text === 'string') {
    const compact = text.replace(/[\s'_\u00a0\u202f]/g, '').replaceAll(decimalMark === '.' ? ',' : '.', '');
    const [, sign = '', whole = '', , fraction = ''] = /^([+-]?)(\d*)([.,](\d*))?$/.exec(compact) ?? [];
    if (whole !== '' || fraction !== '')
      return {
        sign: sign === '-' ? '-' : '',
        whole: whole.replace(/^0+(?=\d)/, '') || '0',
        fraction,
      };
  }
  throw badInput(prop, value, `a number with the decimal mark ${decimalMark}`);
}

export function groupThousands(whole: string, separator: string): string {
  return whole.replace(/\d(?=(?:\d{3})+$)/g, `$&${separator}`);
}

/** Digits without an exponent. */
function plainDigits(value: number): string {
  return Number.isFinite(value)
    ? value.toLocaleString('en-US', { useGrouping: false, maximumSignificantDigits: 17 })
    : String(value);
}
