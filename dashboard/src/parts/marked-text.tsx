import { shortened, visible } from './plain-text.ts';

/** `**strong**`, `` `code` `` and `[words](address)`; everything else of Markdown is as readable as it stands. */
const marks = /(\*\*[^*\n]{1,500}\*\*|`[^`\n]{1,500}`|\[[^\]\n]{1,500}\]\([^)\s]{1,1000}\))/;

/** Foreign text with a little Markdown in it. Addresses are shown, and lead nowhere: whose they are is not known. */
export function MarkedText({ text, max }: { text: string; max: number }) {
  return (
    <p className="pre-line break">
      {visible(shortened(text, max))
        .split(marks)
        .map((part, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text have no other identity.
          <Part key={index} part={part} />
        ))}
    </p>
  );
}

function Part({ part }: { part: string }) {
  if (part.startsWith('**') && part.endsWith('**') && part.length > 4)
    return <strong>{part.slice(2, -2)}</strong>;
  if (part.startsWith('`') && part.endsWith('`') && part.length > 2) return <code>{part.slice(1, -1)}</code>;
  const link = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(part);
  return link === null ? part : `${link[1]} (${link[2]})`;
}
