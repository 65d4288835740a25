import type { AccountService } from '#accounts/account-service.ts';
import { removeWebhook, type WebhookOptions } from '#delivery/webhooks/manage-webhooks.ts';
import { pageOfWebhooks } from '#delivery/webhooks/webhook-store.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { SourceDeployer } from '#sources/deploy-source.ts';
import { pageOfSources } from '#sources/source-store.ts';
import type { PageRequest } from '#storage/page.ts';
import type { Db } from '#storage/store.ts';
import type { WorkflowDeployer } from '#workflows/definitions/deploy-workflow.ts';
import { pageOfWorkflows } from '#workflows/definitions/workflow-store.ts';

/** How long `deactivate` hooks and providers of accounts are waited for, all together; then the rest goes without. */
const externalMs = 60_000;
/** Maximum duration of one `deactivate`. */
const hookMsMax = 20_000;
/** Ids read at once. */
const pageSize = 500;
/** Sources, workflows or webhooks that end at the same time. */
const atOnce = 8;

export interface EndOwnerOptions {
  db: Db;
  clock: Clock;
  logger: Logger;
  bus: Pick<EventBus, 'emitterRemoved'>;
  sources: Pick<SourceDeployer, 'remove'>;
  workflows: Pick<WorkflowDeployer, 'remove'>;
  webhooks: WebhookOptions;
  accounts: Pick<AccountService, 'removeAllOf'>;
}

/**
 * Ends everything of an owner that runs: each source, workflow, webhook and account as if a user deleted it, a few at a time, with failures of
 * hooks ignored. What cannot be removed so is left, and goes with the rows of its table. Can be repeated.
 */
export async function endOwner(
  options: EndOwnerOptions,
  ownerId: string,
  signal: AbortSignal,
): Promise<void> {
  const { db, clock, sources, workflows, webhooks } = options;
  const untilMs = clock.now() + externalMs;
  const removal = () => ({
    ignoreHookErrors: true,
    hookMsMax: Math.max(0, Math.min(hookMsMax, untilMs - clock.now())),
  });
  // Before the first of them goes: a cursor has to exist.
  const [workflowIds, sourceIds, webhookIds] = await Promise.all([
    idsOf((page) => pageOfWorkflows(db, { ownerId }, page)),
    idsOf((page) => pageOfSources(db, ownerId, page)),
    idsOf((page) => pageOfWebhooks(db, ownerId, page)),
  ]);
  await Promise.all([
    endAll(options, { ids: workflowIds, signal }, (id) => workflows.remove(id, removal())),
    endAll(options, { ids: sourceIds, signal }, (id) => sources.remove(id, removal())),
    endAll(options, { ids: webhookIds, signal }, (id) => removeWebhook(webhooks, id)),
  ]);
  await options.accounts.removeAllOf(ownerId, { untilMs, signal });
}

async function idsOf(
  list: (page: PageRequest) => Promise<{ rows: readonly { id: string }[] }>,
): Promise<string[]> {
  const ids: string[] = [];
  for (let after: string | undefined; ; ) {
    const { rows } = await list({ limit: pageSize, ...(after === undefined ? {} : { after }) });
    for (const { id } of rows) ids.push(id);
    after = rows.at(-1)?.id;
    if (rows.length < pageSize) return ids;
  }
}

/** Removes these objects; those that cannot be removed are passed over. */
async function endAll(
  { logger, bus }: EndOwnerOptions,
  { ids, signal }: { ids: readonly string[]; signal: AbortSignal },
  remove: (id: string) => Promise<void>,
): Promise<void> {
  for (let at = 0; at < ids.length; at += atOnce) {
    signal.throwIfAborted();
    await Promise.all(ids.slice(at, at + atOnce).map(endOne));
  }

  async function endOne(id: string): Promise<void> {
    try {
      await remove(id);
    } catch (error) {
      signal.throwIfAborted();
      // A source goes with the workflow that it was made for.
      if (error instanceof CallerError && error.code === 'not_found') return;
      logger.warn({ object: id, error: toError(error).message }, 'deletion.object-not-ended');
      bus.emitterRemoved(id);
    }
  }
}
