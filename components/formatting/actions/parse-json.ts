import { type ActionRun, ConfigurationError, textOf } from '../../action.ts';

export default {
  key: 'formatting-parse-json',
  name: '[Data] Parse JSON',
  version: '0.0.1',
  description: 'Turns JSON text into a value. Example: the text `{"id": 7}` becomes an object with the id 7',
  type: 'action',
  props: {
    input: { type: 'any', label: 'Input', description: 'JSON text' },
  },
  async run(this: { input: unknown }, { $ }: ActionRun) {
    try {
      // An earlier step may have parsed it already.
      const isText = typeof this.input !== 'object';
      const result: unknown = isText ? JSON.parse(textOf('input', this.input)) : this.input;
      $.export('$summary', isText ? 'Parsed the JSON' : 'Kept the value, which is parsed already');
      return result;
    } catch (error) {
      if (error instanceof ConfigurationError) throw error;
      throw new ConfigurationError(`input: found no JSON (${(error as Error).message})`);
    }
  },
};
