import { CallerError } from '#lib/errors.ts';

const runHere =
  'rewrite it as JavaScript, export default defineComponent({ async run({ steps, $ }) { … } }), or call a program of yours by HTTP';

/** Languages of steps elsewhere, by signs that their code has and JavaScript has not. */
const languages: readonly { name: string; signs: readonly RegExp[]; runtime: RegExp; file: RegExp }[] = [
  {
    name: 'Python',
    signs: [
      /^\s*(?:async\s+)?def\s+\w+\s*\(.*\)\s*(?:->.+)?:\s*(?:#.*)?$/m,
      /^from\s+[\w.]+\s+import\s+[\w*(]/m,
      /^import\s+\w+(?:\.\w+)*(?:\s+as\s+\w+)?(?:\s*,\s*\w+)*\s*$/m,
      /^#\s*pipedream\s+(?:add-package|remove-package)/m,
    ],
    runtime: /^python/i,
    file: /\.py$/i,
  },
  {
    name: 'Bash',
    signs: [/^#!.*\b(?:ba|z)?sh\b/, /"?\$\{?PIPEDREAM_(?:STEPS|EXPORTS)\b/],
    runtime: /^(?:ba|z)?sh/i,
    file: /\.sh$/i,
  },
  { name: 'Go', signs: [/^package\s+main\s*$/m], runtime: /^go/i, file: /\.go$/i },
];

const firstGeneration =
  'this is a code step of the first generation: put it into export default defineComponent({ async run({ steps, $ }) { … } }), ' +
  'with steps.trigger.event for event, $.respond for $respond, $.send for $send, $.flow.exit for $end, and props for params and auths';

/** What only code steps of the first generation have, which were the body of a function. */
const firstGenerationSigns: readonly RegExp[] = [
  /(?<![\w$.])\$(?:respond|send|end|checkpoint|event)\b/,
  /^\s*async\s*(?:function\s*)?\(\s*(?:event|params)\b/m,
  /(?<![\w$.])(?:event|steps|params|auths)\s*[.[]/,
];
const hasExport = /\bexport\s+(?:default\b|\{)|\bmodule\.exports\b|\bexports\.\w/;

/** Does the work of making a component of code. Its error says so if the code is a step of another format. */
export async function explainForeignCode<T>(code: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CallerError) || hasExport.test(code)) throw error;
    const language = languages.find(({ signs }) => signs.some((sign) => sign.test(code)));
    if (language !== undefined) throw explained(error, notRun(language.name));
    if (!firstGenerationSigns.some((sign) => sign.test(code))) throw error;
    // The signs are less certain here, so the error of the code as JavaScript is reported too.
    throw explained(error, `${firstGeneration}; as it is: ${withoutParameter(error)}`);
  }
}

/** The same for a component that is named: `pipedream/…` of the first generation, or a file of a project. */
export async function explainForeignComponent<T>(text: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CallerError)) throw error;
    if (text.startsWith('pipedream/'))
      throw explained(
        error,
        `${JSON.stringify(text.slice(0, 200))} is a step of the first generation, which has no component here: give an action of the registry, or code`,
      );
    if (!text.startsWith('./')) throw error;
    const language = languages.find(({ file }) => file.test(text));
    throw explained(
      error,
      language === undefined
        ? `${JSON.stringify(text.slice(0, 200))} is a file of a project: give its content as code`
        : notRun(language.name),
    );
  }
}

/** Why a step with this `runtime` (or `lang`) cannot be run; undefined for Node.js and what is unknown. */
export function foreignRuntime(runtime: unknown): string | undefined {
  if (typeof runtime !== 'string') return undefined;
  const language = languages.find((one) => one.runtime.test(runtime));
  return language && notRun(language.name);
}

/** A field of a step in an exported workflow that has another name here, or none; undefined: there is none of these. */
export function exportedField(step: object): { field: string; instead: string } | undefined {
  const field = Object.keys(insteadOf).find((name) => Object.hasOwn(step, name));
  return field === undefined ? undefined : { field, instead: insteadOf[field] ?? '' };
}

const insteadOf: Readonly<Record<string, string>> = {
  runtime: 'there is no such field: steps run on the Node.js of the service; leave it out',
  lang: 'there is no such field: steps run on the Node.js of the service; leave it out',
  uses: 'there is no such field: give the key of an action as component, or the content of a file as code',
  notes: 'there is no such field: a step has one note; give it as note',
};

function notRun(language: string): string {
  return `this is a ${language} step, and steps are JavaScript or TypeScript here: ${runHere}`;
}

function explained(error: CallerError, message: string): CallerError {
  return new CallerError(error.code, message, error.details, { cause: error });
}

function withoutParameter({ message, details }: CallerError): string {
  const prefix = `${String(details.parameter)}: `;
  return message.startsWith(prefix) ? message.slice(prefix.length) : message;
}
