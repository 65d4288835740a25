import type { ReactNode } from 'react';
import { type Part, type PartNode, partName, type StepNode } from '~/editing/blocks.ts';
import { ruleText, valueText } from '~/editing/rule-draft.ts';
import { shortened, visible } from './plain-text.ts';

/** When a branch is taken, in words; empty for a part that is no branch. */
function decidesBy(blockKind: unknown, part: Part): string {
  if (part.kind !== 'branch') return '';
  if (part.if !== undefined) return `if ${ruleText(part.if)}`;
  if (part.case !== undefined) return `case ${valueText(part.case)}`;
  return blockKind === 'parallel' ? 'always' : 'otherwise';
}

/** The head of a list of steps in a block. */
export function PartHead({
  blockKind,
  part,
  children,
}: {
  blockKind: unknown;
  part: Part;
  /** What else there is to say of it. */
  children?: ReactNode;
}) {
  return (
    <h3 className="facts part-head">
      <span className="part-name">{visible(shortened(partName(part), 110))}</span>
      <span className="muted rule-text">{visible(shortened(decidesBy(blockKind, part), 300))}</span>
      {children}
    </h3>
  );
}

/** The steps in a block, to be read: `draw` draws one of them. */
export function BlockParts<T>({
  blockKind,
  parts,
  draw,
}: {
  blockKind: unknown;
  parts: readonly PartNode<T>[];
  draw: (node: StepNode<T>) => ReactNode;
}) {
  return parts.map((part) => (
    <div key={`${part.kind} ${part.slug}`} className="edit-part">
      <PartHead blockKind={blockKind} part={part} />
      {part.nodes.length === 0 ? (
        <p className="muted">No steps</p>
      ) : (
        <ol className="edit-list">
          {part.nodes.map((node) => (
            <li key={node.position}>{draw(node)}</li>
          ))}
        </ol>
      )}
    </div>
  ));
}
