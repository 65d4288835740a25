import { Marked } from 'marked';
import { type ActionRun, textOf } from '../../action.ts';

export default {
  key: 'formatting-convert-markdown-to-html',
  name: '[Text] Convert Markdown to HTML',
  version: '0.0.1',
  description:
    'Converts Markdown to HTML. HTML in the text stays as it is. Example: `"**hi**"` becomes `"<p><strong>hi</strong></p>"`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Markdown, with tables and lists as on GitHub' },
  },
  async run(this: { input: string }, { $ }: ActionRun) {
    const result = await new Marked({ gfm: true }).parse(textOf('input', this.input));
    $.export('$summary', 'Converted Markdown to HTML');
    return result.trimEnd();
  },
};
