import { rangesByForm } from './secret-forms.ts';

/** Shown in place of a secret. */
const hidden = '••••••••';

/** Names of what is not shown: of props, headers, parameters, and in lines of code. */
const secretWord =
  /auth\b|authorization|cookie|token|secret|passw|passphrase|passwd|api[-_]?key|(?:private|access)[-_]?key|credential|signature|jwt/i;
/** One expression without texts of its own. */
const plainExpression = /^\s*\{\{[^"'`]*\}\}\s*$/;
/** Runs of characters that are long enough for a key. */
const keyRun = /[A-Za-z0-9_-]{20,}/g;
/** Lines of keys and certificates. */
const base64Run = /[A-Za-z0-9+/]{40,}={0,2}/g;

/** True for the name of a prop, or of a place in its value, whose value is not shown. */
export function namesSecret(name: string): boolean {
  return secretWord.test(name);
}

/** The value of a place that `namesSecret`. What an expression reads stands elsewhere. */
export function hideValue(value: unknown): unknown {
  return typeof value === 'string' && plainExpression.test(value) ? value : hidden;
}

/** A text without what looks like a secret: passwords and keys in URLs, credentials of headers, known forms of keys, and long random texts. */
export function hideSecrets(text: string): string {
  if (rangesByForm(text).length > 0) return hidden;
  return text
    .replace(/(:\/\/[^/?#@\s:{}]*):[^/?#@\s{}]+@/g, `$1:${hidden}@`)
    .replace(/([?&][^=&#\s]*)=([^&#\s]+)/g, (found, name: string, value: string) =>
      namesSecret(name) && !plainExpression.test(value) ? `${name}=${hidden}` : found,
    )
    .replace(/\b(Bearer|Basic)\s+[^\s{}"'`]+/gi, `$1 ${hidden}`)
    .replace(base64Run, (run) => (/\d/.test(run) ? hidden : run))
    .replace(keyRun, (run) => (looksRandom(run) ? hidden : run));
}

/** A line of code: texts in a line with the name of a secret are not shown. */
export function hideInLine(line: string): string {
  const shown = namesSecret(line)
    ? line.replace(/(["'`])(?:\\.|(?!\1).)*(?:\1|$)/g, (literal, quote: string) =>
        plainExpression.test(literal.slice(1, -1)) || literal.length <= 2
          ? literal
          : `${quote}${hidden}${quote}`,
      )
    : line;
  return hideSecrets(shown);
}

function looksRandom(run: string): boolean {
  if (!/\d/.test(run)) return false;
  const [hasUpper, hasLower] = [/[A-Z]/.test(run), /[a-z]/.test(run)];
  return (hasUpper && hasLower) || run.length >= 32 || /^[0-9a-f-]{24,}$/i.test(run);
}
