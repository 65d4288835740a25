import type { PropDefinition } from '#components/component-shape.ts';
import type { ConfiguredProps } from '#components/validate-props.ts';
import { CallerError } from '#lib/errors.ts';
import { Pauses } from '#lib/pauses.ts';
import { compileErrorAt, compileErrorOf, partsOfText, type Tries } from '#runner/sandbox/expression-parts.ts';
import { isSecretProp } from '#sources/sealed-props.ts';
import { quoted } from './at-parameter.ts';

/** Maximum characters of expressions that are compiled for one definition, half a second of work. The rest is compiled when it runs. */
const definitionCharactersMax = 1_000_000;
/** Maximum attempts to find the ends of the expressions in one text. The sandbox has the same maximum. */
const endsMax = 500;
/** Types whose texts are not checked here. `sql` has its own rules: a comment in it may contain an expression. */
const plainTypes: ReadonlySet<string> = new Set(['app', 'alert', 'data_store', 'dir', 'sql']);

/** A text of a definition that may hold expressions. */
interface PlacedText {
  text: string;
  at: string;
  isSecret: boolean;
}

/**
 * Refuses expressions that do not compile. They are compiled by the same parser that the sandbox has, so every
 * expression that is refused here would fail there too. They are never evaluated.
 */
export class ExpressionChecker {
  readonly #pauses = new Pauses();
  #charactersLeft = definitionCharactersMax;

  /** Throws `invalid_prop` naming `configured_props.<name>`. */
  async checkProps(definitions: readonly PropDefinition[], values: ConfiguredProps): Promise<void> {
    for (const definition of definitions) {
      const { name, type } = definition;
      if (plainTypes.has(type) || type.startsWith('$.')) continue;
      await this.#check(values[name], `configured_props.${name}`, isSecretProp(definition));
    }
  }

  /** The same for the fields of a block: throws `invalid_parameter` naming the place of the text. */
  async checkFields(fields: object, at: string): Promise<void> {
    await this.#check(fields, at, false, 'invalid_parameter');
  }

  async #check(value: unknown, at: string, isSecret: boolean, code = 'invalid_prop'): Promise<void> {
    for (const placed of textsIn(value, at, isSecret)) {
      if (this.#charactersLeft <= 0) return;
      const tries: Tries = { left: endsMax, characters: this.#charactersLeft };
      const parts = partsOfText(placed.text, tries);
      this.#charactersLeft = tries.characters ?? 0;
      // The budget may have run out before the right end of the expression was tried.
      if (this.#charactersLeft > 0)
        for (const part of parts)
          if (typeof part !== 'string' && part.run === undefined) throw invalidExpression(placed, part, code);
      await this.#pauses.pause();
    }
  }
}

/** True when a text is one expression and nothing else. */
export function isSingleExpression(text: string): boolean {
  // Most are: then there is no other place where it may end, and nothing is to be compiled.
  if (text.startsWith('{{') && text.indexOf('}}') === text.length - 2) return true;
  const tries: Tries = { left: endsMax, characters: definitionCharactersMax };
  const parts = partsOfText(text, tries);
  return (tries.characters ?? 0) <= 0 || (parts.length === 1 && typeof parts[0] !== 'string');
}

type FailedPart = Parameters<typeof compileErrorOf>[0];

function invalidExpression({ text, at, isSecret }: PlacedText, part: FailedPart, code: string): CallerError {
  const before = text.slice(0, part.at + compileErrorAt(part)).split('\n');
  const line = before.length;
  const column = (before.at(-1) ?? '').length + 1;
  const what = isSecret ? 'an expression' : `the expression ${quoted(`{{${part.text}}}`)}`;
  const why = isSecret ? '' : `: ${compileErrorOf(part)}`;
  return new CallerError(
    code,
    `${at}: ${what} is not valid JavaScript (line ${line}, column ${column})${why}`,
    { parameter: at, line, column },
  );
}

const depthMax = 64;

function* textsIn(value: unknown, at: string, isSecret: boolean, depth = 0): Generator<PlacedText> {
  if (typeof value === 'string') {
    if (value.includes('{{')) yield { text: value, at, isSecret };
    return;
  }
  if (typeof value !== 'object' || value === null || depth > depthMax) return;
  for (const [key, item] of Object.entries(value))
    yield* textsIn(item, Array.isArray(value) ? `${at}[${key}]` : `${at}.${key}`, isSecret, depth + 1);
}
