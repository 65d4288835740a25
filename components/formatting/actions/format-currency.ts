import { type ActionRun, badInput } from '../../action.ts';
import { groupThousands, readDecimal } from '../numbers.ts';

/** Currencies that a form offers; any other ISO 4217 code works too. */
const offered =
  'USD EUR GBP JPY CNY INR CHF CAD AUD NZD SEK NOK DKK PLN CZK HUF RON TRY ILS ZAR BRL MXN KRW SGD HKD'.split(
    ' ',
  );

export default {
  key: 'formatting-format-currency',
  name: '[Numbers] Format Currency',
  version: '0.0.1',
  description: 'Writes a number as an amount of money. Example: `1250.5` in `USD` becomes `"$1,250.50"`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Amount, with a period before the decimals' },
    currency: {
      type: 'string',
      label: 'Currency',
      description: 'ISO 4217 code, such as `EUR`',
      options: offered,
      otherValues: true,
    },
    currencyFormat: {
      type: 'string',
      label: 'Currency format',
      description:
        '`¤` is the symbol of the currency, `¤¤` its code and `¤¤¤` its name; `#,##0.00` is the amount',
      optional: true,
      default: '¤#,##0.00',
      otherValues: true,
      options: [
        { label: '$1,000.00', value: '¤#,##0.00' },
        { label: '$1,000.00 USD', value: '¤#,##0.00 ¤¤' },
        { label: '$1,000.00 US Dollar', value: '¤#,##0.00 ¤¤¤' },
        { label: '$1000.00', value: '¤###0.00' },
        { label: '1,000.00', value: '#,##0.00' },
        { label: '1000.00', value: '###0.00' },
      ],
    },
  },
  async run(this: { input: string; currency: string; currencyFormat?: string }, { $ }: ActionRun) {
    const amount = readDecimal('input', this.input, '.');
    const format = String(this.currencyFormat ?? '¤#,##0.00');
    const [digits] = /[#0,]*0(?:\.0+)?/.exec(format) ?? [];
    if (digits === undefined)
      throw badInput('currencyFormat', format, 'a format with the digit 0, such as ¤#,##0.00');
    const decimals = digits.split('.')[1]?.length ?? 0;
    const { whole, fraction } = round(amount.whole, amount.fraction, decimals);
    const number =
      (digits.includes(',') ? groupThousands(whole, ',') : whole) + (fraction === '' ? '' : `.${fraction}`);
    const isZero = /^0*$/.test(whole + fraction);
    const result =
      (isZero ? '' : amount.sign) +
      format
        .replace(digits, number)
        .replace(/¤{1,3}/g, (marks) => currencyText(String(this.currency), marks.length));
    $.export('$summary', `Formatted the amount as ${result}`);
    return result;
  },
};

/** Half away from zero, on the digits themselves: amounts are exact at any length. */
function round(whole: string, fraction: string, decimals: number): { whole: string; fraction: string } {
  const kept = BigInt(whole + fraction.slice(0, decimals).padEnd(decimals, '0'));
  const rounded = kept + (/^[5-9]/.test(fraction.slice(decimals)) ? 1n : 0n);
  const digits = String(rounded).padStart(decimals + 1, '0');
  const at = digits.length - decimals;
  return { whole: digits.slice(0, at), fraction: digits.slice(at) };
}

function currencyText(currency: string, marks: number): string {
  if (!/^[A-Za-z]{3}$/.test(currency)) throw badInput('currency', currency, 'an ISO 4217 code such as EUR');
  if (marks === 2) return currency.toUpperCase();
  const display = marks === 1 ? 'narrowSymbol' : 'name';
  if (display === 'name')
    return new Intl.DisplayNames('en', { type: 'currency' }).of(currency.toUpperCase()) ?? currency;
  const parts = new Intl.NumberFormat('en', {
    style: 'currency',
    currency,
    currencyDisplay: display,
  }).formatToParts(0);
  return parts.find(({ type }) => type === 'currency')?.value ?? currency;
}
