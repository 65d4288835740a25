import mustache from 'mustache';
import { type ActionRun, badInput, ConfigurationError, parsedValue, textOf } from '../../action.ts';

// A warm process would keep every template that it ever rendered.
mustache.templateCache = undefined;

/** Workflows evaluate double braces before the step runs, so templates have brackets by default. */
const delimiters: Record<string, [string, string]> = {
  brackets: ['[[', ']]'],
  percent: ['<%', '%>'],
  braces: ['{{', '}}'],
};

export default {
  key: 'text-render-template',
  name: 'Render Template',
  version: '0.0.1',
  description:
    'Fills a Mustache template with data. Example: `Hello [[name]]![[#items]] [[.]][[/items]]` with a name and items becomes `Hello Ada! Tea Cup`',
  type: 'action',
  props: {
    template: {
      type: 'string',
      label: 'Template',
      description:
        '`[[name]]` is a value, `[[#list]]…[[/list]]` is repeated for each item, and `[[^name]]…[[/name]]` is there without a value',
    },
    data: {
      type: 'object',
      label: 'Data',
      description: 'Values by their names; `[[customer.name]]` reads an inner one',
    },
    escape: {
      type: 'string',
      label: 'Escape',
      description: 'How values are escaped; `[[&name]]` never is',
      optional: true,
      default: 'none',
      options: [
        { label: 'Not at all: plain text', value: 'none' },
        { label: 'For HTML', value: 'html' },
        { label: 'For texts in JSON', value: 'json' },
      ],
    },
    delimiters: {
      type: 'string',
      label: 'Delimiters',
      description: 'What tags of the template begin and end with',
      optional: true,
      default: 'brackets',
      options: [
        { label: '[[name]]', value: 'brackets' },
        { label: '<% name %>', value: 'percent' },
        { label: '{{name}}, for templates of an earlier step', value: 'braces' },
      ],
    },
  },
  async run(
    this: { template: string; data: unknown; escape?: string; delimiters?: string },
    { $ }: ActionRun,
  ) {
    const tags = delimiters[this.delimiters ?? 'brackets'];
    if (tags === undefined)
      throw badInput('delimiters', this.delimiters, `one of ${Object.keys(delimiters).join(', ')}`);
    const escapeValue = escapes[this.escape ?? 'none'];
    if (escapeValue === undefined)
      throw badInput('escape', this.escape, `one of ${Object.keys(escapes).join(', ')}`);
    const template = textOf('template', this.template);
    const data = parsedValue('data', this.data);
    if (typeof data !== 'object' || data === null) throw badInput('data', data, 'an object');
    try {
      const result = mustache.render(template, data, undefined, { tags, escape: escapeValue });
      $.export('$summary', `Rendered ${result.length} characters`);
      return result;
    } catch (error) {
      throw new ConfigurationError(`template: ${(error as Error).message}`);
    }
  },
};

const escapes: Record<string, (value: unknown) => string> = {
  none: String,
  html: (value) => mustache.escape(String(value)),
  json: (value) => JSON.stringify(String(value)).slice(1, -1),
};
