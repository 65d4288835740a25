import { type ConfiguredProps, propError } from '#components/validate-props.ts';
import { stringsIn } from './deployment.ts';

/**
 * Throws CallerError `invalid_prop` for a text such as `{{…env.NAME}}`: sources evaluate no expressions and find no environment
 * variables, so their code would get the text itself.
 */
export function refuseVariables(values: ConfiguredProps): void {
  for (const [name, value] of Object.entries(values))
    if (stringsIn(value).some(namesVariable))
      throw propError(
        name,
        'found an expression with an environment variable, expected the value itself: variables are for workflows only; the value of a ' +
          'secret prop is kept sealed',
      );
}

/** In time linear in the text: it comes from a caller. */
function namesVariable(text: string): boolean {
  for (let at = text.indexOf('{{'); at !== -1; ) {
    const end = text.indexOf('}}', at);
    if (end === -1) return false;
    if (/\bprocess\s*\??\.\s*env\b/.test(text.slice(at, end))) return true;
    at = text.indexOf('{{', end);
  }
  return false;
}
