import { type Mark, marksOf } from './marks.ts';
import { shortened, visible } from './plain-text.ts';

/**
 * Foreign text with a little Markdown in it: links, code, strong text and emphasis. Links have http, https and mailto URLs only, and open a
 * page without a reference to this one.
 */
export function MarkedText({ text, max }: { text: string; max: number }) {
  return (
    <p className="pre-line break">
      <MarkedWords text={text} max={max} />
    </p>
  );
}

/** The same inside a paragraph. */
export function MarkedWords({ text, max }: { text: string; max: number }) {
  return <Marks marks={marksOf(visible(shortened(text, max)))} />;
}

function Marks({ marks }: { marks: readonly Mark[] }) {
  return marks.map((mark, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one text have no other identity.
    <Piece key={index} mark={mark} />
  ));
}

function Piece({ mark }: { mark: Mark }) {
  switch (mark.kind) {
    case 'text':
      return mark.text;
    case 'code':
      return <code>{mark.text}</code>;
    case 'strong':
      return (
        <strong>
          <Marks marks={mark.marks} />
        </strong>
      );
    case 'emphasis':
      return (
        <em>
          <Marks marks={mark.marks} />
        </em>
      );
    case 'link':
      return (
        <a href={mark.href} title={mark.href} target="_blank" rel="noopener noreferrer nofollow">
          <Marks marks={mark.marks} />
        </a>
      );
  }
}
