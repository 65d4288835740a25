import { useEffect, useRef, useState } from 'react';
import { dropDraft, keepDraft, keptDraft } from './kept-draft.ts';
import { definitionOf, type WorkflowDraft } from './workflow-draft.ts';

/** A draft is stored when typing has paused for this long. */
const restMs = 300;

/** What a draft follows on. */
export interface DraftBase {
  /** d_…; null: the workflow is not there yet. */
  deploymentId: string | null;
  draft: WorkflowDraft;
}

/**
 * A draft of a workflow. What was changed is kept in the tab, also when the page is left or reloaded; a browser asks before
 * the tab itself is closed. `id` is the workflow's, or the name of a place for one that is not there yet.
 */
export function useWorkflowDraft(id: string, begin: DraftBase) {
  const [kept] = useState(() => keptDraft(id));
  const [base, setBase] = useState<DraftBase>(() =>
    kept === undefined ? begin : { deploymentId: kept.base, draft: begin.draft },
  );
  const [draft, setDraft] = useState(kept?.draft ?? begin.draft);
  const [canKeep, setCanKeep] = useState(true);
  const isChanged = JSON.stringify(definitionOf(draft)) !== JSON.stringify(definitionOf(base.draft));
  const latest = useRef({ draft, base, isChanged });
  latest.current = { draft, base, isChanged };

  // biome-ignore lint/correctness/useExhaustiveDependencies: written again when one of them is another.
  useEffect(() => {
    const write = () => {
      const now = latest.current;
      if (!now.isChanged) return dropDraft(id);
      setCanKeep(keepDraft(id, { base: now.base.deploymentId, atMs: Date.now(), draft: now.draft }));
    };
    const timer = setTimeout(write, restMs);
    return () => clearTimeout(timer);
  }, [id, draft, base]);

  useEffect(
    () => () => {
      const now = latest.current;
      if (now.isChanged) keepDraft(id, { base: now.base.deploymentId, atMs: Date.now(), draft: now.draft });
      else dropDraft(id);
    },
    [id],
  );

  useEffect(() => {
    if (!isChanged) return;
    const ask = (event: BeforeUnloadEvent) => {
      const now = latest.current;
      keepDraft(id, { base: now.base.deploymentId, atMs: Date.now(), draft: now.draft });
      event.preventDefault();
    };
    window.addEventListener('beforeunload', ask);
    return () => window.removeEventListener('beforeunload', ask);
  }, [id, isChanged]);

  return {
    draft,
    base,
    isChanged,
    /** False: it is too large for what a tab keeps. */
    canKeep,
    /** Epoch ms; undefined: it begins here. */
    keptAtMs: kept?.atMs,
    change: (part: Partial<WorkflowDraft>) => setDraft((before) => ({ ...before, ...part })),
    /** Bases the draft on another deployment, with its content unchanged. */
    follow: (next: DraftBase) => setBase(next),
    /** It is as this is, and nothing is kept. */
    restart: (next: DraftBase) => {
      latest.current = { draft: next.draft, base: next, isChanged: false };
      dropDraft(id);
      setBase(next);
      setDraft(next.draft);
    },
  };
}
