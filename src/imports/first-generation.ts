/**
 * Code steps of the first generation have one of two forms: the body of a function, or one function of `event` and `steps`. Both use the globals
 * `$event`, `$respond`, `$end`, `$send` and `require`.
 */
const hasExport = /\bexport\s+(?:default\b|\{|const\b|async\b|function\b)|\bmodule\.exports\b|\bexports\.\w/;
const hasImport = /^\s*import\s/m;
const leading = /^(?:\s|\/\/[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)*/;
const wholeFunction = /^async\s*(?:function\s*\w*\s*)?\(([^)]*)\)/;
const globals = /(?<![\w$.])\$(?:respond|end|send|event)\b/;

export interface WrappedCode {
  code: string;
  /** Globals that the code uses and that do not exist here, such as `$checkpoint`. */
  missing: string[];
}

/** Converts the code to a component. Undefined when it already is one. */
export function wrapFirstGeneration(code: string): WrappedCode | undefined {
  if (hasExport.test(code) || hasImport.test(code)) return undefined;
  const start = code.slice((leading.exec(code)?.[0] ?? '').length);
  const [, parameters] = wholeFunction.exec(start) ?? [];
  if (parameters === undefined && !globals.test(code) && !/(?<![\w$.])(?:event|steps)\s*[.[]/.test(code))
    return undefined;
  const body = code.trim().replace(/;+$/, '');
  const names = ['event', 'steps', 'params', 'auths'];
  const given = (parameters ?? '')
    .split(',')
    .map((name, at) => (names.includes(name.trim()) ? name.trim() : (names[at] ?? 'undefined')))
    .join(', ');
  const step = parameters === undefined ? `async (event, steps, params, auths) => {\n${body}\n}` : body;
  const used = parameters === undefined ? names.join(', ') : given;
  const missing = ['$checkpoint', 'params', 'auths'].filter((name) =>
    new RegExp(`(?<![\\w$.])${name.replace('$', '\\$')}\\s*[.[=]`).test(
      code.replaceAll('this.$checkpoint', '$checkpoint'),
    ),
  );
  return {
    missing,
    code: `// A code step of the first generation, wrapped by the importer.
export default defineComponent({
  async run({ steps, $ }) {
    const event = steps.trigger.event;
    const $event = event;
    const params = {};
    const auths = {};
    const $respond = (response) => $.respond(response);
    const $end = (reason) => $.flow.exit(reason);
    const $send = $.send;
    // What the step sets on \`this\` are its exports.
    const exported = {};
    const result = await (async function () {
      const step =
${step}
      ;
      return step.call(this, ${used});
    }).call(exported);
    for (const [name, value] of Object.entries(exported)) $.export(name, value);
    return result;
  },
});
`,
  };
}
