import { type ActionRun, parsedValue } from '../../action.ts';

export default {
  key: 'formatting-convert-json-to-string',
  name: '[Data] Convert JSON to String',
  version: '0.0.1',
  description: 'Turns a value into JSON text. Example: an object with the id 7 becomes `{"id":7}`',
  type: 'action',
  props: {
    input: { type: 'any', label: 'Input', description: 'Object, list or other value' },
    indent: {
      type: 'integer',
      label: 'Indent',
      description: 'Spaces at each level; 0 is one line',
      optional: true,
      default: 0,
      min: 0,
      max: 10,
    },
  },
  async run(this: { input: unknown; indent?: number }, { $ }: ActionRun) {
    const result = JSON.stringify(parsedValue('input', this.input), null, this.indent ?? 0);
    $.export('$summary', 'Converted the value to JSON');
    return result;
  },
};
