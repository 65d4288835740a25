import type { TriggerDraft } from '~/editing/workflow-draft.ts';

/** A trigger with what changes it. */
export interface EditedTrigger {
  trigger: TriggerDraft;
  ownerId: string;
  onChange: (change: Partial<TriggerDraft>) => void;
}
