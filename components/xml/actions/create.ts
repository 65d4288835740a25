import { XMLBuilder } from 'fast-xml-parser';
import { type ActionRun, badInput, ConfigurationError, parsedValue } from '../../action.ts';

export default {
  key: 'xml-create',
  name: 'Create XML',
  version: '0.0.1',
  description:
    'Turns an object into XML. Names that begin with `@` become attributes. Example: `{"order": {"@id": 7, "item": "Tea"}}` becomes `<order id="7"><item>Tea</item></order>`',
  type: 'action',
  props: {
    input: { type: 'object', label: 'Input', description: 'Object with one name, that of the root element' },
    declaration: {
      type: 'boolean',
      label: 'Declaration',
      description: 'Begin with `<?xml version="1.0" encoding="UTF-8"?>`',
      optional: true,
      default: true,
    },
    indent: {
      type: 'boolean',
      label: 'Indent',
      description: 'Put each element on a line of its own',
      optional: true,
      default: false,
    },
  },
  async run(this: { input: unknown; declaration?: boolean; indent?: boolean }, { $ }: ActionRun) {
    const input = parsedValue('input', this.input);
    if (typeof input !== 'object' || input === null || Array.isArray(input))
      throw badInput('input', input, 'an object with one name, that of the root element');
    const { length } = Object.keys(input);
    if (length !== 1)
      throw new ConfigurationError(`input: found ${length} names, expected one, that of the root element`);
    const builder = new XMLBuilder({
      ignoreAttributes: false,
      attributeNamePrefix: '@',
      suppressBooleanAttributes: false,
      format: this.indent === true,
    });
    const declaration = this.declaration === false ? '' : '<?xml version="1.0" encoding="UTF-8"?>\n';
    const result = declaration + builder.build(input);
    $.export('$summary', 'Created XML');
    return result;
  },
};
