import { isDeepStrictEqual } from 'node:util';
import { unwrapChoice, unwrapId } from '#components/chosen-value.ts';
import type { PropDefinition } from '#components/component-shape.ts';
import { type ConfiguredProps, isExpression, propError } from '#components/validate-props.ts';
import { quoted } from './at-parameter.ts';

/** Options that an answer names. */
const optionsShown = 10;

/**
 * Refuses values that are not among the static options of their prop. Options that code computes are not known here, and an expression
 * may give any value. With `otherValues` the options of a prop are suggestions. Throws `invalid_prop` naming `configured_props.<name>`.
 */
export function checkOptions(definitions: readonly PropDefinition[], values: ConfiguredProps): void {
  for (const definition of definitions) {
    const { name, type, options, remoteOptions, otherValues } = definition;
    if (!Array.isArray(options) || options.length === 0 || remoteOptions === true || otherValues === true)
      continue;
    const value = unwrapChoice(values[name], false);
    // Forms give an empty text for no value.
    if (value === '' && definition.optional === true) continue;
    if (value === undefined || value === null || hasExpression(value)) continue;
    const known = options.map(unwrapId);
    if (!type.endsWith('[]') || !Array.isArray(value)) {
      requireOption(known, value, name);
      continue;
    }
    for (const [index, item] of value.entries())
      if (!hasExpression(item)) requireOption(known, item, `${name}[${index}]`);
  }
}

function hasExpression(value: unknown): boolean {
  return isExpression(value) || (typeof value === 'string' && value.includes('{{'));
}

function requireOption(known: readonly unknown[], value: unknown, name: string): void {
  if (known.some((option) => isSame(option, unwrapId(value)))) return;
  const shown = known.slice(0, optionsShown).map(quoted).join(', ');
  const more = known.length > optionsShown ? ` and ${known.length - optionsShown} more` : '';
  throw propError(name, `found ${quoted(value)}, expected one of ${shown}${more}`);
}

/** Numbers and texts are the same where they read the same, as forms give them. */
function isSame(option: unknown, value: unknown): boolean {
  if (typeof option === 'object' || typeof value === 'object') return isDeepStrictEqual(option, value);
  return String(option) === String(value);
}
